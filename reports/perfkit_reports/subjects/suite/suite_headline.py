"""The headline of a bench. Only a variant that took effect and kept the loss can win."""

from collections import Counter

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core import units
from perfkit.core.record import Measurement, RunStatus
from perfkit.store.suite_state import Conclusion
from perfkit_reports.subjects.suite import suite_cells
from perfkit_reports.wording import format_sentence

_SAME_MEMORY = 0.01  # peaks that differ by less count as the same


def find_fastest(analysis: Analysis) -> Variant | None:
    """The variant with the largest proven speed-up, or None."""
    proven = [variant for variant in _list_faster(analysis) if _is_sound(variant)]
    return min(proven, key=_get_ratio, default=None)


def find_leanest(analysis: Analysis) -> Variant | None:
    """The variant with the smallest peak, if it saves memory of its baseline; else None."""
    leaner = [
        variant
        for variant in analysis.variants
        if variant.status == RunStatus.OK
        and variant.loop is None
        and not variant.comparison_unit
        and _is_sound(variant)
        and variant.memory_ratio is not None
        and variant.memory_ratio <= 1 - _SAME_MEMORY
    ]
    return min(leaner, key=lambda variant: variant.memory_ratio or 0.0, default=None)


def is_alone(analysis: Analysis) -> bool:
    """True for a single variant."""
    return len(analysis.variants) == 1


def build_headline(analysis: Analysis) -> str:
    """The main result, after what is missing of it: rounds after an interruption, verdicts and, without these, the
    machine's other load."""
    noisy = describe_machine_load(analysis.load)
    undecided = any(
        variant.difference and variant.difference.verdict == "inconclusive" for variant in analysis.variants
    )
    load = format_sentence(noisy) if noisy and undecided else ""
    parts = (_describe_conclusion(analysis), load, _describe_result(analysis))
    return " ".join(filter(None, parts))


def _describe_conclusion(analysis: Analysis) -> str:
    rounds = 0 if analysis.sampling is None else analysis.sampling.rounds
    after = f"{rounds:,} complete round{'' if rounds == 1 else 's'}"
    if analysis.conclusion == Conclusion.INTERRUPTED:
        return f"Interrupted after {after}: results are incomplete."
    if analysis.conclusion == Conclusion.UNDECIDED:
        return f"Undecided after {after}."
    return ""


def _describe_result(analysis: Analysis) -> str:
    measured = [variant for variant in analysis.variants if isinstance(variant.step_time, MedianEstimate)]
    if not measured:
        ended = {variant.status for variant in analysis.variants}
        if ended == {RunStatus.OUT_OF_MEMORY}:
            return "Every variant ran out of memory." if len(analysis.variants) > 1 else "Out of memory."
        return "No variant could be measured."
    if len(analysis.variants) == 1:
        return f"{measured[0].name}: {suite_cells.make_step_time_cell(measured[0]).text} per step."
    if not any(variant.is_baseline for variant in measured):
        return f"{_describe_missing_baseline(analysis)}; no comparison is possible."
    best = find_fastest(analysis)
    if best is not None:
        return (
            f"{best.name} is fastest: {suite_cells.make_speed_up_cell(best).text} the baseline's speed"
            f"{_describe_memory(best)}."
        )
    if any(variant.difference and variant.difference.verdict == "inconclusive" for variant in measured):
        return "No variant is clearly faster than the baseline; some comparisons are inconclusive."
    compared = [variant for variant in measured if variant.difference is not None]
    if not compared:
        return f"No variant was compared with the baseline{_explain_uncompared(analysis)}."
    slower = [variant for variant in compared if variant.difference and variant.difference.verdict == "slower"]
    if len(slower) == 1 == len(compared):
        speed = suite_cells.make_speed_up_cell(slower[0]).text
        return f"The baseline is fastest; {slower[0].name} runs at {speed} its speed."
    if len(slower) == len(compared):
        return f"The baseline is fastest of {len(compared) + 1} variants."
    return "No variant is faster than the baseline."


def _describe_missing_baseline(analysis: Analysis) -> str:
    """Reason for the missing baseline, if all share it."""
    ended = {variant.status for variant in analysis.variants if variant.is_baseline}
    return f"The baseline {'ran out of memory' if ended == {RunStatus.OUT_OF_MEMORY} else 'was not measured'}"


def _explain_uncompared(analysis: Analysis) -> str:
    """The variants' reasons for not being compared."""
    others = (variant for variant in analysis.variants if not variant.is_baseline)
    causes = dict.fromkeys(variant.emulation_reason or variant.reason for variant in others)
    reasons = "; ".join(filter(None, causes)).removesuffix(".")
    return f": {reasons}" if reasons else ""


def list_remarks(analysis: Analysis) -> list[str]:
    """Remarks that qualify the headline."""
    lines = []
    noisy = describe_machine_load(analysis.load)
    if noisy and format_sentence(noisy) not in build_headline(analysis):
        lines.append(format_sentence(noisy))
    best, least = find_fastest(analysis), find_leanest(analysis)
    if best is not None and "–" in suite_cells.format_speed_interval(best):
        low, high = suite_cells.format_speed_interval(best).split("–")
        lines.append(f"Speed-up of {best.name}: {low}× to {high} (95 % interval).")
    if least is not None and least is not best:
        decided = least.difference is not None and least.difference.verdict != "inconclusive"
        speed = f", at {suite_cells.make_speed_up_cell(least).text} the baseline's speed" if decided else ""
        lines.append(
            f"{least.name} uses the least memory: {suite_cells.make_peak_memory_cell(least).text}"
            f"{_describe_memory(least, ', ')}{speed}."
        )
    for variant in sorted(_list_faster(analysis), key=_get_ratio):
        if not _is_sound(variant) and (best is None or _get_ratio(variant) < _get_ratio(best)):
            lines.append(
                f"{variant.name} measured {suite_cells.make_speed_up_cell(variant).text} but does not count: "
                f"{_explain_unsound(variant)}."
            )
    broken = [variant.name for variant in analysis.variants if variant.parity.not_finite_step is not None]
    if broken:
        lines.append(f"NaN or infinite losses: {', '.join(broken)}.")
    return lines


def _explain_unsound(variant: Variant) -> str:
    if variant.parity.not_finite_step is not None:
        return "its loss is not finite"
    differs = variant.parity.verdict == "differs"
    return "its losses differ from the baseline's" if differs else "its techniques had no effect"


def count_by_status(analysis: Analysis) -> str:
    """`5 ok, 1 skipped`: outcomes of the variants."""
    counts = Counter(variant.status.value for variant in analysis.variants)
    parts = [*(f"{count} {status}" for status, count in counts.items()), analysis.conclusion]
    return ", ".join(filter(None, parts))


def _list_faster(analysis: Analysis) -> list[Variant]:
    return [
        variant
        for variant in analysis.variants
        if variant.difference is not None and variant.difference.verdict == "faster"
    ]


def _is_sound(variant: Variant) -> bool:
    return variant.active is not False and variant.parity.verdict != "differs"


def _get_ratio(variant: Variant) -> float:
    assert variant.difference is not None
    return variant.difference.ratio


def _describe_memory(variant: Variant, lead: str = " with ") -> str:
    ratio = variant.memory_ratio
    if ratio is None or not isinstance(variant.peak_allocated, Measurement):
        return ""
    per = f" per {variant.comparison_unit}" if variant.comparison_unit else ""
    if abs(ratio - 1) < _SAME_MEMORY:
        return f"{lead}the same peak memory{per}"
    return f"{lead}{units.format_percent(abs(ratio - 1), 0)} {'less' if ratio < 1 else 'more'} peak memory{per}"
