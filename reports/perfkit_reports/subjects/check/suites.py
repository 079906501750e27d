"""The verdicts of a check: a suite for each variant, a case for each gated quantity."""

from itertools import chain, count

from perfkit.check.result import Check, CheckedVariant, JudgedQuantity, Verdict, is_failure
from perfkit_reports.document.cases import Case, Outcome, Suite
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import quantities, story

_OUTCOMES: dict[Verdict, Outcome] = {
    Verdict.PASS: "pass",
    Verdict.IMPROVED: "better",
    Verdict.FAIL: "fail",
    Verdict.WORSE: "worse",
    Verdict.INCONCLUSIVE: "unsure",
    Verdict.NOT_COMPARED: "skipped",
}


def suites(check: Check) -> tuple[Suite, ...]:
    """A suite's time is what its pairs of processes took; what was estimated from them has equal parts of it."""
    names: set[str] = set()
    return tuple(_suite(check, variant, _unlike(story.name(variant), names)) for variant in check.variants)


def _suite(check: Check, variant: CheckedVariant, name: str) -> Suite:
    gated = story.gated(variant)
    seconds = sum(pair.seconds for pair in variant.pairs)
    shared = seconds / max(1, sum(judged.samples > 0 for judged in gated))
    environment = check.after.environment
    return Suite(
        name=name,
        cases=tuple(cases(variant, check.fail_on, shared)),
        remark=story.busy([variant]),
        suspects=tuple(story.suspects(variant)),
        reason="" if gated else "; ".join(story.notes(variant)) or "no quantity of it has a threshold",
        properties=_properties(check, variant),
        host="" if environment is None else one_line(environment.hostname),
        seconds=seconds,
    )


def cases(variant: CheckedVariant, fail_on: Verdict, seconds: float = 0.0) -> list[Case]:
    """Of the gated quantities; `seconds` is the time of each that was sampled."""
    titles: set[str] = set()
    return [_case(judged, fail_on, _unlike(one_line(judged.title), titles), seconds) for judged in story.gated(variant)]


def _case(judged: JudgedQuantity, fail_on: Verdict, name: str, seconds: float) -> Case:
    change = quantities.change(judged)
    interval = f" ({change.detail})" if change.detail else ""
    compared = quantities.has_change(judged)
    sides = f"{quantities.before(judged).text} → {quantities.after(judged).text}"
    return Case(
        name=name,
        outcome="fail" if is_failure(judged.verdict, fail_on) else _OUTCOMES[judged.verdict],
        word=judged.verdict.value,
        figures=f"{change.text}{interval}, allowed {quantities.threshold(judged).text}" if compared else "",
        sides=sides if compared else "",
        reason=one_line(judged.reason),
        to_decide=one_line(judged.to_decide),
        seconds=seconds if judged.samples else 0.0,
    )


def _properties(check: Check, variant: CheckedVariant) -> tuple[tuple[str, str], ...]:
    """What was compared, and every figure to the last digit, in the quantity's unit."""
    properties = [
        ("perfkit", one_line(check.perfkit)),
        ("before", story.side(check.before)),
        ("after", story.side(check.after)),
    ]
    for judged in variant.judged:
        quantity = one_line(judged.quantity)
        for figure in ("before", "after", "change", "low", "high"):
            value = getattr(judged, figure)
            if value is not None:
                properties.append((f"{quantity}.{figure}", repr(value)))
        properties.append((f"{quantity}.verdict", judged.verdict.value))
    return tuple(properties)


def _unlike(name: str, taken: set[str]) -> str:
    """`name`, with a number where it is taken; then that is too."""
    numbered = (f"{name} ({number})" for number in count(2))
    free = next(option for option in chain([name], numbered) if option not in taken)
    taken.add(free)
    return free
