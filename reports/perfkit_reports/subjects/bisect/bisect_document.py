"""The report on a bisection: the change, what it changed, and every check on the way."""

from collections.abc import Iterator
from functools import partial

from perfkit.check.bisect.result import BisectCandidate, Bisection, BisectStep
from perfkit.check.bisect.search import Outcome
from perfkit.core import units
from perfkit.store.summary import BISECT_FILE, SUMMARY_FILE, ReportSummary
from perfkit_reports.document.blocks import Block, Section, Table, Text, Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, build_plain_data
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.check import quantities
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.wording import format_plural

_TONES = {Outcome.GOOD: "good", Outcome.BAD: "bad", Outcome.UNKNOWN: "unsure"}
_HASH = 12  # characters of a commit's


def build_document(bisection: Bisection) -> Document:
    """Draw a bisection: its answer first."""
    return Document(
        kind="bisect",
        title=f"Bisection of {format_plural(len(bisection.candidates), 'candidate')}",
        headline=build_headline(bisection),
        perfkit=bisection.perfkit,
        created_at=bisection.created_at,
        eyebrow=(
            "perfkit bisect",
            flatten_text(f"{bisection.workload} {bisection.variant}"),
            bisection.created_at[:10],
        ),
        lead=tuple(_list_lead(bisection)),
        tiles=tuple(_build_tiles(bisection)),
        summary=(
            *make_list("causes", map(flatten_text, bisection.causes), "Likely causes", weight=Weight.BRIEF),
            *make_list(
                "differences", map(flatten_text, bisection.environment_differences), "Differences", weight=Weight.BRIEF
            ),
            *_build_steps(bisection),
        ),
        sections=(
            Section("candidates", "Candidates", tuple(_build_candidates(bisection)), folded=True),
            Section("method", "Method", (Text(id="how", lines=_METHOD, style="list"),), folded=True),
        ),
        data=(
            build_plain_data("candidates", BisectCandidate, bisection.candidates),
            build_plain_data("steps", BisectStep, bisection.steps),
        ),
        raw={BISECT_FILE: bisection, SUMMARY_FILE: _summarize(bisection)},
        saves=BISECT_FILE,
    )


def build_headline(bisection: Bisection) -> str:
    """`torch==2.13.0 made step time worse`; what is left where it is not one candidate."""
    if not bisection.steps or bisection.steps[0].outcome is not Outcome.BAD:
        return "The ends do not differ: nothing to search"
    what = flatten_text(bisection.title)
    if bisection.first_bad is None or bisection.last_good is None:
        return f"Searching what made {what} worse"
    if bisection.is_found:
        return f"{_get_name(bisection, bisection.first_bad)} made {what} worse"
    left = bisection.first_bad - bisection.last_good
    between = format_plural(left - 1, "candidate")
    rest = f"{between} could not be decided" if bisection.is_complete else f"{between} left"
    return f"One of {left} changes made {what} worse; {rest}"


def _summarize(bisection: Bisection) -> ReportSummary:
    return ReportSummary(
        kind="bisect",
        name=flatten_text(f"{bisection.workload} {bisection.variant}".strip()),
        created_at=bisection.created_at,
        device="",
        headline=build_headline(bisection),
    )


def _list_lead(bisection: Bisection) -> Iterator[str]:
    if bisection.last_good is not None and bisection.first_bad is not None:
        yield (
            f"Last good: {_get_name(bisection, bisection.last_good)}. "
            f"First bad: {_get_name(bisection, bisection.first_bad)}."
        )
    elif bisection.steps:
        yield bisection.steps[0].reason or "No quantity with a threshold failed between the ends."
        yield "Name a smaller --threshold, a --quantity, or a longer --budget."


def _build_tiles(bisection: Bisection) -> Iterator[Tile]:
    ends = bisection.steps[0].judged if bisection.steps else None
    if ends is not None:
        yield Tile("Good", quantities.make_before_cell(ends))
        yield Tile("Bad", quantities.make_after_cell(ends))
    checks = len(bisection.steps)
    yield Tile(
        "Checks",
        Cell(
            str(checks), detail=f"of {len(bisection.candidates)} candidates, {units.format_seconds(bisection.seconds)}"
        ),
    )


def _build_steps(bisection: Bisection) -> Iterator[Block]:
    brief = partial(Column[BisectStep], weight=Weight.BRIEF)
    columns = (
        brief("Candidate", lambda step: Cell(_get_name(bisection, step.index)), numeric=False),
        brief(
            "Outcome",
            lambda step: Cell(step.outcome.value, tone=_TONES[step.outcome], detail=flatten_text(step.reason)),
            numeric=False,
        ),
        brief("Value", lambda step: _make_value_cell(step)),
        brief("Change", lambda step: _make_change_cell(step)),
        Column[BisectStep]("Check", lambda step: Cell(step.folder), numeric=False),
    )
    if bisection.steps:
        yield Table(
            id="steps",
            title="Checks against the good end",
            columns=columns,
            rows=bisection.steps,
            what="check",
            weight=Weight.BRIEF,
            whole=True,
        )


def _make_value_cell(step: BisectStep) -> Cell:
    return make_unknown_cell("not measured") if step.judged is None else quantities.make_after_cell(step.judged)


def _make_change_cell(step: BisectStep) -> Cell:
    return make_unknown_cell("not measured") if step.judged is None else quantities.make_change_cell(step.judged)


def _build_candidates(bisection: Bisection) -> Iterator[Block]:
    outcomes = {step.index: step.outcome for step in bisection.steps}
    numbers = range(len(bisection.candidates))
    columns = (
        Column[int]("Candidate", lambda number: Cell(flatten_text(bisection.candidates[number].name)), numeric=False),
        Column[int](
            "What it is", lambda number: Cell(flatten_text(bisection.candidates[number].detail)), numeric=False
        ),
        Column[int](
            "Outcome",
            lambda number: (
                Cell(outcomes[number].value, tone=_TONES[outcomes[number]])
                if number in outcomes
                else Cell("the good end" if number == 0 else "not measured")
            ),
            numeric=False,
        ),
    )
    yield from make_table("candidates-table", "Candidates", columns, numbers, "candidate")


def _get_name(bisection: Bisection, index: int) -> str:
    candidate = bisection.candidates[index]
    if bisection.kind == "commits":
        return flatten_text(f"{candidate.name[:_HASH]} {candidate.detail}".strip())
    if bisection.kind == "lock files" and index > 0:
        return flatten_text(candidate.detail)
    return flatten_text(candidate.name)


_METHOD = (
    "Both ends are checked as perfkit check does. One quantity of those that failed is searched, an exact one if there "
    "is one.",
    "Each candidate is checked against the good end. It is bad if it is certainly worse by more than half of the "
    "difference of the ends, and good if that is excluded.",
    "An undecided candidate is measured again with two and four times the budget. If that does not decide, it is left "
    "out.",
    "The likely causes are from a check of the last good and the first bad candidate, of counts only.",
)
