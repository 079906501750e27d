"""The headline of a bench, its runner-up, and what to do without an answer.

Only a variant that took effect and kept the loss can win.
"""

import math
import shlex
from collections.abc import Iterator

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline import fastest_variant
from perfkit.analysis.pipeline.fastest_variant import get_ratio, is_sound, list_faster
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core import units
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.store.suite_state import Conclusion
from perfkit_reports.subjects.suite import suite_cells
from perfkit_reports.wording import format_sentence

_SAME_MEMORY = 0.01  # peaks that differ by less count as the same
_LEAST_MINUTES = 10  # of a further session
_LONGER = 2  # times what was not enough
_LOSSES = {"equal": "same loss", "unknown": "loss not checked"}


def find_fastest(analysis: Analysis) -> Variant | None:
    """The variant with the largest proven speed-up, or None."""
    return fastest_variant.find_fastest(analysis.variants)


def find_leanest(analysis: Analysis) -> Variant | None:
    """The variant with the smallest peak, if it saves memory of its baseline; else None."""
    leaner = [
        variant
        for variant in analysis.variants
        if variant.status == RunStatus.OK
        and variant.loop is None
        and not variant.comparison_unit
        and is_sound(variant)
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
    load = format_sentence(noisy) if noisy and _list_undecided(analysis) else ""
    unanswered = analysis.conclusion in (Conclusion.UNDECIDED, Conclusion.INTERRUPTED)
    open_question = unanswered and find_fastest(analysis) is None and bool(_list_undecided(analysis))
    result = "" if open_question or analysis.conclusion == Conclusion.UNDECIDED else _describe_result(analysis)
    return " ".join(filter(None, (_describe_conclusion(analysis), load, result)))


def _list_undecided(analysis: Analysis) -> list[Variant]:
    return [
        variant
        for variant in analysis.variants
        if variant.difference is not None and variant.difference.verdict == "inconclusive"
    ]


def _describe_conclusion(analysis: Analysis) -> str:
    rounds = 0 if analysis.sampling is None else analysis.sampling.rounds
    after = f"after {rounds:,} complete round{'' if rounds == 1 else 's'}"
    if analysis.conclusion == Conclusion.INTERRUPTED:
        return f"Interrupted {after if rounds else 'before a complete round'}: results are incomplete."
    if analysis.conclusion == Conclusion.UNDECIDED:
        return f"Undecided {after if rounds else 'after one run of each variant'}."
    return ""


def _describe_result(analysis: Analysis) -> str:
    measured = [variant for variant in analysis.variants if isinstance(variant.step_time, MedianEstimate)]
    if not measured:
        ended = {variant.status for variant in analysis.variants}
        if ended == {RunStatus.OUT_OF_MEMORY}:
            return "Every variant ran out of memory." if len(analysis.variants) > 1 else "Out of memory."
        return "No variant could be measured."
    if len(analysis.variants) == 1:
        peak = suite_cells.make_peak_memory_cell(measured[0])
        memory = f", {peak.text} at the peak" if peak.known else ""
        return f"{measured[0].name}: {suite_cells.make_step_time_cell(measured[0]).text} per step{memory}."
    if not any(variant.is_baseline for variant in measured):
        return f"{_describe_missing_baseline(analysis)}; no comparison is possible."
    best = find_fastest(analysis)
    if best is not None:
        low_high = f" ({speed})" if "–" in (speed := suite_cells.format_speed_interval(best)) else ""
        figures = (f"{_format_speed_up(best)} faster{low_high}", _describe_memory(best), _describe_loss(best))
        return f"Use {best.name}: {', '.join(filter(None, figures))}."
    if _list_undecided(analysis):
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
    """The runner-up in one clause, and remarks that qualify the headline."""
    return [*_describe_runner_up(analysis), *_list_qualifications(analysis)]


def build_command(analysis: Analysis) -> tuple[str, str]:
    """The command that completes the answer, after what it is for; both are empty if none is needed."""
    folder = shlex.quote(analysis.folder) if analysis.folder else "FOLDER"
    if analysis.conclusion == Conclusion.INTERRUPTED:
        return "Resume with", f"perfkit bench --resume {folder}"
    undecided = [variant for variant in _list_undecided(analysis) if variant.techniques]
    if find_fastest(analysis) is not None or not undecided:
        return "", ""
    names = shlex.quote(",".join("+".join(variant.techniques) for variant in undecided))
    spent_s = 0.0 if analysis.sampling is None else analysis.sampling.seconds
    minutes = max(_LEAST_MINUTES, math.ceil(_LONGER * spent_s / 60))
    return "Decide with more time", f"perfkit bench --into {folder} --technique {names} --budget {minutes}min"


def _describe_runner_up(analysis: Analysis) -> Iterator[str]:
    """The variant with the least memory, else the second fastest."""
    best, least = find_fastest(analysis), find_leanest(analysis)
    if least is not None and least is not best:
        decided = least.difference is not None and least.difference.verdict != "inconclusive"
        speed = f"at {_format_speed_up(least)} the baseline's speed" if decided else "speed undecided"
        less = units.format_percent(1 - (least.memory_ratio or 0.0), 0)
        yield f"Least memory: {least.name}, {less} less, {speed}."
        return
    others = [variant for variant in list_faster(analysis.variants) if is_sound(variant) and variant is not best]
    if others:
        second = min(others, key=get_ratio)
        figures = (f"{_format_speed_up(second)} faster", _describe_memory(second))
        yield f"Runner-up: {second.name}, {', '.join(filter(None, figures))}."


def _list_qualifications(analysis: Analysis) -> Iterator[str]:
    noisy = describe_machine_load(analysis.load)
    if noisy and not _list_undecided(analysis):
        yield format_sentence(noisy)
    best = find_fastest(analysis)
    for variant in sorted(list_faster(analysis.variants), key=get_ratio):
        if not is_sound(variant) and (best is None or get_ratio(variant) < get_ratio(best)):
            yield (
                f"{variant.name} measured {suite_cells.make_speed_up_cell(variant).text} but does not count: "
                f"{explain_unsound(variant)}."
            )
    broken = [variant.name for variant in analysis.variants if variant.parity.not_finite_step is not None]
    if broken:
        yield f"NaN or infinite losses: {', '.join(broken)}."


def _format_speed_up(variant: Variant) -> str:
    """`1.62×`, or `1.62× per sample` where batches differ."""
    per = f" per {variant.comparison_unit}" if variant.comparison_unit else ""
    return f"{suite_cells.make_speed_up_cell(variant).text}{per}"


def _describe_loss(variant: Variant) -> str:
    """The verdict on the loss in a few words."""
    return _LOSSES.get(variant.parity.verdict, f"loss {variant.parity.verdict}")


def explain_unsound(variant: Variant) -> str:
    """Why a variant that is not sound does not count."""
    if variant.parity.not_finite_step is not None:
        return "its loss is not finite"
    differs = variant.parity.verdict == "differs"
    return "its losses differ from the baseline's" if differs else "its techniques had no effect"


def _describe_memory(variant: Variant) -> str:
    ratio = variant.memory_ratio
    if ratio is None or not isinstance(variant.peak_allocated, Measurement):
        return ""
    per = f" per {variant.comparison_unit}" if variant.comparison_unit else ""
    if abs(ratio - 1) < _SAME_MEMORY:
        return f"same memory{per}"
    return f"{units.format_percent(abs(ratio - 1), 0)} {'less' if ratio < 1 else 'more'} memory{per}"
