"""The report on a history."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from perfkit.check.history.result import HISTORY_FILE, ChangePoint, History, QuantitySeries, SeriesPoint
from perfkit.core.note import list_texts
from perfkit_reports.charts.history import build_history_chart
from perfkit_reports.document.blocks import Block, Details, Group, Narrow, Section, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import NOTHING, Column, RawTable, build_owned_data, build_schema, extract_fields
from perfkit_reports.document.weight import Weight
from perfkit_reports.notes import map_texts
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.history import changes as change_cells
from perfkit_reports.subjects.history.changes import SeriesChange
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.wording import format_plural

_OF = {"workload": str, "variant": str, "quantity": str, "unit": str, "machine": str, "how": str}
_CHANGES = {
    **build_schema(ChangePoint, **_OF),
    "before": float,
    "after": float,
    "commit_before": str,
    "commit_after": str,
}


def build_document(history: History) -> Document:
    """Draw a history: a table of changes, and a small plot per series."""
    changes = change_cells.list_changes(history)
    named = [([getattr(series, name) for name in _OF], series) for series in history.series]
    sections = (
        Section("changes", "Changes", tuple(_build_changes(history, changes))),
        Section("series", "Series", tuple(_build_series(history, changes)), intro=(_READING,)),
        Section("method", "Change detection", tuple(_build_method(history)), nav="Method", folded=True),
    )
    return Document(
        kind="history",
        title=f"History of {history.folder}",
        headline=change_cells.build_headline(history),
        perfkit=history.perfkit,
        created_at=history.created_at,
        eyebrow=(flatten_text(history.folder), format_plural(history.runs, "run"), history.created_at[:10]),
        warnings=map_texts(flatten_text, history.notes),
        sections=sections,
        data=(
            build_owned_data("points", SeriesPoint, _OF, named, lambda series: series.points),
            RawTable("changes", _CHANGES, partial(_list_change_rows, history)),
        ),
        raw={HISTORY_FILE: history},
        saves=HISTORY_FILE,
    )


def _build_changes(history: History, changes: list[SeriesChange]) -> Iterator[Block]:
    if history.series:
        workloads = dict.fromkeys(_get_workload(series) for series in history.series)
        titles = dict.fromkeys(series.title for series in history.series)
        yield Narrow(id="narrow", choices={"Workload": tuple(workloads), "Quantity": tuple(titles)})
    if changes:
        yield from make_table(
            "changes-table",
            "Changes",
            COLUMNS,
            changes,
            "change",
            limit=len(changes),
            show_title=False,
            weight=Weight.BRIEF,
            details=_build_details,
            tags=lambda change: _get_tags(change.series),
            caption=_INTERVALS,
        )
    else:
        yield Text(id="steady", lines=("No significant change in any series.",), style="empty")
    pending = [f"? {flatten_text(f'{series.name}: {series.pending}')}" for series in history.series if series.pending]
    yield from make_list("pending", pending, "Pending", weight=Weight.BRIEF)
    yield from make_list(
        "notes", map_texts(flatten_text, change_cells.list_notes(history)), "Notes", weight=Weight.BRIEF
    )


def _build_details(change: SeriesChange) -> tuple[Block, ...]:
    """Commits of a change, and environment changes with it."""
    commits = change.point.commits
    lines = [
        flatten_text(f"{change_cells.shorten_revision(commit.revision)} {commit.title}") for commit in commits.commits
    ]
    older = (commits.count or 0) - len(commits.commits)
    if lines and older > 0:
        lines.append(f"and {older:,} older commits")
    return make_list(f"commits-{change.id}", lines, weight=Weight.BRIEF)


def _build_series(history: History, changes: list[SeriesChange]) -> Iterator[Block]:
    """Plots of changed series in the order of changes; others folded."""
    order = {id(change.series): place for place, change in reversed(list(enumerate(changes)))}
    numbered = list(enumerate(history.series))
    changed = [(number, series) for number, series in numbered if series.changes or series.pending]
    changed.sort(key=lambda plot: order.get(id(plot[1]), len(order)))
    steady = [(number, series) for number, series in numbered if not series.changes and not series.pending]
    if changed:
        yield _build_plots("changed-series", changed)
    if steady:
        title = f"{format_plural(len(steady), 'series', 'series')} without a change"
        yield Details(id="steady-series", title=title, blocks=(_build_plots("steady-plots", steady),), open=not changed)
    if not history.series:
        yield Text(id="no-series", lines=("No run contains a figure.",), style="empty")


def _build_plots(name: str, plots: Iterable[tuple[int, QuantitySeries]]) -> Group:
    return Group(
        id=name,
        beside=True,
        blocks=tuple(
            build_history_chart(series, f"series-{number}", tags=_get_tags(series), caption=_build_caption(series))
            for number, series in plots
        ),
    )


def _build_caption(series: QuantitySeries) -> str:
    """`perfkit bench, bench-01; runs vary by 1.0 %; ...` and other notes on the series."""
    about = "; ".join(filter(None, (f"{series.how}, {series.machine}", change_cells.describe_noise(series))))
    notes = [f"{note[:1].upper()}{note[1:]}." for note in (*list_texts(series.notes), *filter(None, [series.pending]))]
    return flatten_text(" ".join((f"{about}.", *notes)))


def _build_method(history: History) -> Iterator[Block]:
    yield from make_list("how", _METHOD, weight=Weight.DETAIL)
    if len(history.machines) > 1:
        yield from make_list("machines", map(flatten_text, history.machines), "Machines", weight=Weight.DETAIL)
    if history.repository:
        line = flatten_text(f"Commits are from {history.repository}.")
        yield Text(id="repository", lines=(line,), style="caption", weight=Weight.DETAIL)


def _get_workload(series: QuantitySeries) -> str:
    return f"{series.workload} {series.variant}"


def _get_tags(series: QuantitySeries) -> dict[str, str]:
    return {"Workload": _get_workload(series), "Quantity": series.title}


COLUMNS: tuple[Column[SeriesChange], ...] = (
    Column("Quantity", change_cells.make_series_cell, numeric=False, wrap=True, weight=Weight.BRIEF),
    Column("Direction", change_cells.make_direction_cell, numeric=False, weight=Weight.BRIEF),
    Column("Change", change_cells.make_change_cell, weight=Weight.BRIEF),
    Column("Before", lambda change: change_cells.make_level_cell(change.point.before.value, change)),
    Column("After", lambda change: change_cells.make_level_cell(change.point.after.value, change)),
    Column(
        "Since",
        lambda change: Cell(change_cells.format_day(change.first), value=change.first.time or NOTHING),
        numeric=False,
    ),
    Column("Commits", change_cells.make_commits_cell, numeric=False, wrap=True, weight=Weight.BRIEF),
    Column("Confidence", change_cells.make_confidence_cell, numeric=False, wrap=True),
)


def _list_change_rows(history: History) -> list[dict[str, Any]]:
    return [
        extract_fields(
            _CHANGES,
            change,
            **{name: getattr(series, name) for name in _OF},
            before=change.before.value,
            after=change.after.value,
            commit_before=change.commits.before,
            commit_after=change.commits.after,
        )
        for series in history.series
        for change in series.changes
    ]


_INTERVALS = (
    "Intervals are at the 95 % level. p is the probability of a change this large anywhere in an unchanged series of "
    "this length."
)
_READING = (
    "Dots are runs (median of processes); gray steps are levels with 95 % intervals. Dashed lines are changes: "
    "orange ▲ worse, blue ▼ better; shading marks where the change may also lie. Crosses are outlier runs; open "
    "circles are runs with uncommitted changes."
)
_METHOD = (
    (
        "A series is one quantity of one variant, on one kind of machine, measured one way. Figures from different "
        "machines are never combined."
    ),
    "For exact counts (memory, FLOPs, graph breaks), any difference is a change.",
    (
        "PELT (squared distance) segments noisy quantities into levels of at least three runs. A level is kept if "
        "Student's t between neighboring levels has p below 1 %, corrected for the number of positions and for "
        "autocorrelation. With enough runs, a rank test must agree."
    ),
    (
        "A commit range spans the last run of the old level to the first of the new one. If noise makes the position "
        "uncertain, the wider range is also given."
    ),
    "Throughput and MFU follow from step time and have no series.",
)
