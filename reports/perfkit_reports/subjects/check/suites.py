"""Verdicts of a check as test suites: one per variant, a case per gated quantity."""

from itertools import chain, count

from perfkit.check.judge.result import Check, CheckedVariant, JudgedQuantity, Verdict, is_failure
from perfkit.core.note import list_texts
from perfkit_reports.document.cases import Outcome, VerdictCase, VerdictSuite
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import check_sentences, quantities

_OUTCOMES: dict[Verdict, Outcome] = {
    Verdict.PASS: "pass",
    Verdict.IMPROVED: "better",
    Verdict.FAIL: "fail",
    Verdict.WORSE: "worse",
    Verdict.INCONCLUSIVE: "unsure",
    Verdict.NOT_COMPARED: "skipped",
}


def build_suites(check: Check) -> tuple[VerdictSuite, ...]:
    """Test suites; a suite's time is that of its pairs, shared equally by its sampled quantities."""
    names: set[str] = set()
    return tuple(
        _build_suite(check, variant, _make_unique(check_sentences.get_name(variant), names))
        for variant in check.variants
    )


def _build_suite(check: Check, variant: CheckedVariant, name: str) -> VerdictSuite:
    gated = check_sentences.list_gated(variant)
    seconds = sum(pair.seconds for pair in variant.pairs)
    shared = seconds / max(1, sum(judged.samples > 0 for judged in gated))
    environment = check.after.environment
    return VerdictSuite(
        name=name,
        cases=tuple(build_cases(variant, check.fail_on, shared)),
        remark=check_sentences.describe_load([variant]),
        suspects=tuple(check_sentences.list_suspects(variant)),
        reason=""
        if gated
        else "; ".join(list_texts(check_sentences.list_notes(variant))) or "no quantity has a threshold",
        properties=_list_properties(check, variant),
        host="" if environment is None else flatten_text(environment.hostname),
        seconds=seconds,
    )


def build_cases(variant: CheckedVariant, fail_on: Verdict, seconds: float = 0.0) -> list[VerdictCase]:
    """Cases of gated quantities; `seconds` is the time of each sampled one."""
    titles: set[str] = set()
    return [
        _build_case(judged, fail_on, _make_unique(flatten_text(judged.title), titles), seconds)
        for judged in check_sentences.list_gated(variant)
    ]


def _build_case(judged: JudgedQuantity, fail_on: Verdict, name: str, seconds: float) -> VerdictCase:
    change = quantities.make_change_cell(judged)
    interval = f" ({change.detail})" if change.detail else ""
    compared = quantities.has_change(judged)
    sides = f"{quantities.make_before_cell(judged).text} → {quantities.make_after_cell(judged).text}"
    return VerdictCase(
        name=name,
        outcome="fail" if is_failure(judged.verdict, fail_on) else _OUTCOMES[judged.verdict],
        word=judged.verdict.value,
        figures=f"{change.text}{interval}, allowed {quantities.make_threshold_cell(judged).text}" if compared else "",
        sides=sides if compared else "",
        reason=flatten_text(judged.reason),
        to_decide=flatten_text(judged.data_needed),
        seconds=seconds if judged.samples else 0.0,
    )


def _list_properties(check: Check, variant: CheckedVariant) -> tuple[tuple[str, str], ...]:
    """The compared figures with all digits, in the quantity's unit."""
    properties = [
        ("perfkit", flatten_text(check.perfkit)),
        ("before", check_sentences.format_side(check.before)),
        ("after", check_sentences.format_side(check.after)),
    ]
    for judged in variant.quantities:
        quantity = flatten_text(judged.quantity)
        for figure in ("before", "after", "change", "low", "high"):
            value = getattr(judged, figure)
            if value is not None:
                properties.append((f"{quantity}.{figure}", repr(value)))
        properties.append((f"{quantity}.verdict", judged.verdict.value))
    return tuple(properties)


def _make_unique(name: str, used_names: set[str]) -> str:
    """`name`, numbered if already used."""
    numbered = (f"{name} ({number})" for number in count(2))
    free = next(option for option in chain([name], numbered) if option not in used_names)
    used_names.add(free)
    return free
