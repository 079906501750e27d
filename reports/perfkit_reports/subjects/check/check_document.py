"""The report on a check."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from perfkit.check.judge.result import Check, CheckedSide, CheckedVariant, JudgedQuantity, Verdict
from perfkit.core import units
from perfkit.store.pairs import ALTERNATING, LOCK_STEP
from perfkit.store.summary import CHECK_FILE, SUMMARY_FILE
from perfkit_reports.charts.pairs import build_pairs_chart
from perfkit_reports.document.blocks import Block, Details, Section, Text, Tile
from perfkit_reports.document.cases import VerdictCase, list_reasons
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.environment import list_environment_items
from perfkit_reports.names import shorten_middle
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import causes, check_sentences, check_summary, check_tables, quantities
from perfkit_reports.subjects.check.environment_change import list_changed_environment
from perfkit_reports.subjects.check.suites import build_cases, build_suites
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.wording import format_plural

DOCUMENTATION = "docs/check.md"
_SUSPECTS, _OF_EACH = 6, 3  # maximum lines: all variants, one variant, summary
_COMMAND = 2000  # maximum characters of a command

# These always differ between machines or revisions: no reason to doubt a comparison.
_OF_NO_CONSEQUENCE = {"Host", "Git revision"}

# Verdicts that need attention come first.
ORDER = (
    Verdict.FAIL,
    Verdict.WORSE,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_COMPARED,
    Verdict.IMPROVED,
    Verdict.PASS,
)

_Row = tuple[CheckedVariant, JudgedQuantity]


def build_document(check: Check) -> Document:
    """Draw a check."""
    variants = sorted(check.variants, key=lambda variant: ORDER.index(get_worst_verdict(variant)))
    budget = f" of a {units.format_seconds(check.budget_s)} sampling budget" if check.budget_s else ""
    todo = check_sentences.suggest_action(check)
    sections = (
        Section("results", "Quantities", tuple(_build_results(variants)), intro=(_READING,)),
        Section("why", "Causes", causes.build_blocks(variants), intro=(_WHY,)),
        Section("pairs", "Pairs", tuple(_build_pairs(variants)), intro=(_PAIRS,)),
        Section("method", "Method", tuple(_build_method(check)), nav="Method", folded=True),
        Section(
            "environment",
            "Environment",
            (_build_environment(check), *list_changed_environment(check, full=True)),
            folded=True,
        ),
    )
    headline = check_sentences.build_headline(check)
    return Document(
        kind="check",
        title=f"{check.verdict.value}: {check_sentences.format_sides(check)}",
        headline=headline[:1].upper() + headline[1:],
        verdict=Cell(quantities.format_verdict(check.verdict), id=check.verdict.value, tone=_get_tone(check)),
        perfkit=check.perfkit,
        created_at=check.created_at,
        eyebrow=(
            "perfkit check",
            *map(check_sentences.get_name, variants if len(variants) == 1 else ()),
            check.created_at[:10],
        ),
        lead=tuple(
            filter(
                None,
                (
                    f"Compared {check_sentences.format_sides(check)}: "
                    f"{check_sentences.describe_sampling(check)}{budget}.",
                    todo,
                ),
            )
        ),
        tiles=(Tile("Before", _make_side_cell(check.before)), Tile("After", _make_side_cell(check.after))),
        summary=(*list_changed_environment(check), *_build_summary(variants, check.fail_on)),
        warnings=tuple(check_sentences.list_warnings(check)),
        sections=tuple(section for section in sections if section.blocks),
        data=check_tables.build_data(check),
        raw={CHECK_FILE: check, SUMMARY_FILE: check_summary.summarize_check(check)},
        saves=CHECK_FILE,
        suites=build_suites(check),
    )


def _get_tone(check: Check) -> str:
    return "bad" if check.failed else quantities.TONES.get(check.verdict, "unsure")


def get_worst_verdict(variant: CheckedVariant) -> Verdict:
    """The worst verdict of the gated quantities."""
    known = {judged.verdict for judged in check_sentences.list_gated(variant)}
    return next((verdict for verdict in ORDER if verdict in known), Verdict.NOT_COMPARED)


def _make_side_cell(side: CheckedSide) -> Cell:
    about = [f"revision {flatten_text(side.revision)}" if side.revision else "revision unknown"]
    if side.environment is not None:
        about.append(f"{flatten_text(side.environment.device_name)}, torch {flatten_text(side.environment.torch)}")
    return Cell(flatten_text(side.label), detail="; ".join(about))


def _build_summary(variants: Sequence[CheckedVariant], fail_on: Verdict) -> tuple[Block, ...]:
    """Likely causes for variants that did not pass, and reasons that the figures do not show."""
    eventful = [variant for variant in variants if not check_sentences.is_uneventful(variant)]
    suspects = [
        _add_variant_name(variant, text, variants)
        for variant in eventful
        for text in check_sentences.list_suspects(variant)[:_OF_EACH]
    ]
    untold = [
        (variant, [case for case in build_cases(variant, fail_on) if _needs_reason(case)]) for variant in variants
    ]
    why_so = [_add_variant_name(variant, reason, variants) for variant, some in untold for reason in list_reasons(some)]
    return (
        *make_list("suspects", suspects[:_SUSPECTS], "Likely causes", weight=Weight.BRIEF),
        *make_list("reasons", why_so, "Reasons", weight=Weight.BRIEF),
    )


def _needs_reason(case: VerdictCase) -> bool:
    """True if the verdict is neither pass nor improved and no figures explain it."""
    return case.outcome in ("unsure", "skipped") or (case.outcome == "fail" and not case.figures)


def _add_variant_name(variant: CheckedVariant, text: str, variants: Sequence[CheckedVariant]) -> str:
    """`text` with its variant, if there are several."""
    return f"{check_sentences.get_name(variant)}: {text}" if len(variants) > 1 else text


def _build_results(variants: Sequence[CheckedVariant]) -> list[Block]:
    """Gated quantities, the worst first, then those without a threshold."""
    gated = [(variant, judged) for variant in variants for judged in check_sentences.list_gated(variant)]
    reported = [(variant, judged) for variant in variants for judged in check_sentences.list_reported(variant)]
    gated.sort(key=lambda row: ORDER.index(row[1].verdict))
    notes = [
        replace(note, text=_add_variant_name(variant, note.text, variants))
        for variant in variants
        for note in check_sentences.list_notes(variant)
    ]
    ungated = [check_sentences.get_name(variant) for variant in variants if not check_sentences.list_gated(variant)]
    shared = {"what": "quantity", "whats": "quantities", "data": "judged"}
    who = (_VARIANT,) if len(variants) > 1 else ()  # the only variant is named above
    ranked: dict[str, Any] = {"limit": len(gated), "weight": Weight.BRIEF}
    blocks: list[Block] = [*make_table("judged", "Gated quantities", (*who, *_GATED), gated, **shared, **ranked)]
    blocks += make_list("ungated", [f"{name}: no quantity has a threshold." for name in ungated], style="empty")
    blocks += make_list("notes", notes, "Notes")
    if reported:
        columns = (*who, *_REPORTED)
        more = make_table(
            "reported", "Quantities without a threshold", columns, reported, **shared, limit=len(reported)
        )
        title = f"Not gated: {format_plural(len(reported), 'more quantity', 'more quantities')}"
        blocks.append(Details(id="not-gated", title=title, blocks=more))
    return blocks


_VARIANT: Column[_Row] = Column(
    "Variant", lambda row: Cell(check_sentences.get_name(row[0])), numeric=False, wrap=True, weight=Weight.BRIEF
)
_QUANTITY: Column[_Row] = Column(
    "Quantity", lambda row: quantities.make_title_cell(row[1]), numeric=False, weight=Weight.BRIEF
)
_BEFORE: Column[_Row] = Column("Before", lambda row: quantities.make_before_cell(row[1]))
_AFTER: Column[_Row] = Column("After", lambda row: quantities.make_after_cell(row[1]))
_CHANGE: Column[_Row] = Column(
    "Change",
    lambda row: quantities.make_change_cell(row[1]),
    help="mark: solid line is no change, dashed line the threshold; right is worse",
    weight=Weight.BRIEF,
)
_GATED: tuple[Column[_Row], ...] = (
    _QUANTITY,
    Column("Verdict", lambda row: quantities.make_verdict_cell(row[1]), numeric=False, pill=True, weight=Weight.BRIEF),
    _BEFORE,
    _AFTER,
    _CHANGE,
    Column("Threshold", lambda row: quantities.make_threshold_cell(row[1]), weight=Weight.BRIEF),
    Column("Reason", lambda row: quantities.make_reason_cell(row[1]), numeric=False, wrap=True),
)
_REPORTED: tuple[Column[_Row], ...] = (
    _QUANTITY,
    _BEFORE,
    _AFTER,
    _CHANGE,
    Column("Remark", lambda row: quantities.make_reason_cell(row[1]), numeric=False, wrap=True),
)


def _build_pairs(variants: Sequence[CheckedVariant]) -> list[Block]:
    return [
        Details(
            id=f"pairs-of-{number}",
            title=(
                f"{check_sentences.get_name(variant)}: {format_plural(len(variant.pairs), 'pair')}, "
                f"{flatten_text(variant.pairing)}"
            ),
            blocks=(chart,),
            open=len(variants) == 1 or not check_sentences.is_uneventful(variant),
        )
        for number, variant in enumerate(variants)
        if (chart := build_pairs_chart(variant, f"pairs-{number}")) is not None
    ]


def _build_method(check: Check) -> list[Block]:
    turns = {variant.pairing for variant in check.variants if variant.pairing}
    lines = [
        _COUNTED,
        *(line for mode, line in ((LOCK_STEP, _LOCK_STEP), (ALTERNATING, _ALTERNATING)) if mode in turns),
        *(_ESTIMATED if turns else ()),
        f"Details: {DOCUMENTATION} in perfkit's documentation.",
    ]
    blocks: list[Block] = [Text(id="how", lines=tuple(lines), style="list", weight=Weight.DETAIL)]
    if check.command:
        at = f" at {flatten_text(check.after.revision)}" if check.after.revision else ""
        command = shorten_middle(flatten_text(check.command), _COMMAND)
        blocks.append(Text(id="command", title=f"Reproduce{at}", lines=(command,), style="code"))
    return blocks


def _build_environment(check: Check) -> Block:
    """Environment rows without entries missing on both sides; differences that can change figures are marked."""
    sides = [dict(list_environment_items(side.environment)) if side.environment else {} for side in _get_sides(check)]
    names = list(sides[0] | sides[1])
    if not names:
        lines = ("Neither side recorded its environment.",)
        return Text(id="environment-of-both", lines=lines, style="empty", weight=Weight.DETAIL)

    def value(side: dict[str, Cell], name: str) -> Cell:
        known = side.get(name, Cell("not recorded"))
        return Cell(flatten_text(known.text), reason=known.reason)

    def named(name: str) -> Cell:
        alike = name in _OF_NO_CONSEQUENCE or value(sides[0], name).text == value(sides[1], name).text
        return Cell(name) if alike else Cell(name, detail="differs", tone="unsure")

    titles = [
        f"{word}: {flatten_text(side.label)}" for word, side in zip(("Before", "After"), _get_sides(check), strict=True)
    ]
    columns: list[Column[str]] = [Column("Setting", named, numeric=False)]
    for title, side in zip(titles, sides, strict=True):
        columns.append(Column(title, partial(value, side), numeric=False, wrap=True))
    shown = {"data": "", "limit": None, "show_title": False, "weight": Weight.DETAIL}
    (both,) = make_table("environment-of-both", "Environment of both sides", columns, names, "property", **shown)
    return both


def _get_sides(check: Check) -> tuple[CheckedSide, CheckedSide]:
    return check.before, check.after


_READING = (
    "Each mark is scaled to its own threshold: solid line, no change; dashed line, threshold; right is worse. "
    "Estimates show their interval as a line; exact counts have none."
)
_WHY = (
    "Traced step time and peak memory of both sides. Op calls, their inputs and the bytes at the peak are exact. Op "
    "times come from a few steps of one process; an op is listed only if its change exceeds the variation of "
    "identical work."
)
_PAIRS = (
    "Each dot is a process pair, one process per side, run together. The line is the mean of the pairs so far, the "
    "dotted line the threshold."
)
_COUNTED = (
    "Counted: peak memory, FLOPs, kernels, graph breaks and losses are the same in every process of the same code. "
    "One process per side suffices, and any difference comes from the code."
)
_LOCK_STEP = (
    "Timed in lock-step: two resident processes, one per side, alternate single steps in the order before, after, "
    "after, before, so both see the same background load. A pair yields one number: the median over its steps of "
    "log(after / before)."
)
_ALTERNATING = (
    "Timed alternately: whole processes of both sides alternate, and each goes first in every other pair. A pair "
    "yields one number: the log ratio of the median steps."
)
_ESTIMATED = (
    (
        "The unit is the pair: steps of one process are correlated, so pooling the steps of few processes would "
        "overstate the confidence."
    ),
    (
        'A time is certainly worse if its whole interval is worse than no change: "fail" if the estimate exceeds the '
        'threshold, otherwise "worse". The confidence level holds over all quantities (Holm) and over repeated looks '
        "at the growing data."
    ),
    (
        "Inconclusive: the data cannot distinguish a change of the threshold's size from no change; the row says how "
        "much more data would. A detectable regression is one that this much data reveals in 95 % of cases."
    ),
)
