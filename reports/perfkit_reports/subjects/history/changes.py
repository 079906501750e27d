"""Cells of a change in a history, one function per column."""

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from perfkit.check.history import result as history_result
from perfkit.check.history.result import (
    ChangePoint,
    CommitRange,
    History,
    QuantitySeries,
    SeriesPoint,
    find_latest_regressions,
)
from perfkit.core import units
from perfkit.core.note import Note
from perfkit.core.parse_units import format_amount, format_precise_amount
from perfkit_reports.cells import format_bounds
from perfkit_reports.charts.history import format_level_change
from perfkit_reports.document.cells import Cell
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.wording import format_plural

WORSE, BETTER = "▲ worse", "▼ better"
_SHORT = 7  # digits of a revision, as in git


@dataclass(frozen=True)
class SeriesChange:
    """A change in a series. `stands` is True if no later change followed, `id` is its anchor on the page."""

    series: QuantitySeries
    point: ChangePoint
    stands: bool
    id: str = ""

    @property
    def first(self) -> SeriesPoint:
        return self.series.points[self.point.first_run]


def list_changes(history: History) -> list[SeriesChange]:
    """Standing regressions of gated quantities first, then standing changes, then others; newest first."""
    every = [
        SeriesChange(series, point, point is series.changes[-1], f"change-{number}-{place}")
        for number, series in enumerate(history.series)
        for place, point in enumerate(series.changes)
    ]
    every.sort(key=lambda change: change.first.time, reverse=True)
    return sorted(every, key=_rank_change)


def _rank_change(change: SeriesChange) -> int:
    return 0 if is_regression(change) else 1 if change.stands and change.point.worse else 2 if change.stands else 3


def is_regression(change: SeriesChange) -> bool:
    """True for a regression that fails `--history`."""
    return change.stands and history_result.is_regression(change.series, change.point)


def build_headline(history: History) -> str:
    if not history.series:
        return "These runs contain no figures."
    worse = find_latest_regressions(history)
    total = sum(len(series.changes) for series in history.series)
    if not total:
        series = format_plural(len(history.series), "series", "series")
        return f"No change in {series} of {format_plural(history.runs, 'run')}."
    if not worse:
        return f"{format_plural(total, 'change')} in {format_plural(history.runs, 'run')}; no gated quantity got worse."
    first = list_changes(history)[0]
    return (
        f"{describe_change(first)}; {format_plural(len(worse), 'gated quantity', 'gated quantities')} got worse beyond "
        f"the threshold, {format_plural(total, 'change')} in {format_plural(history.runs, 'run')}."
    )


def describe_change(change: SeriesChange) -> str:
    """`+3.1 % step time of gpt amp, between abc1234 and def5678 (4 commits)`."""
    return flatten_text(
        f"{make_change_cell(change).text} {change.series.name}, {describe_commits(change.point.commits)}"
    )


def describe_commits(commits: CommitRange) -> str:
    before, after = shorten_revision(commits.before), shorten_revision(commits.after)
    if commits.before and commits.before == commits.after:
        return f"within {after}: no commits in between"
    count = "" if commits.count is None else f" ({format_plural(commits.count, 'commit')})"
    return f"between {before} and {after}{count}"


def shorten_revision(revision: str) -> str:
    return flatten_text(revision)[:_SHORT] or "an unknown revision"


def make_change_cell(change: SeriesChange) -> Cell:
    """Relative change with its interval; absolute from zero."""
    point, tone = change.point, "bad" if change.point.worse else "good"
    if point.change is None:
        difference = point.after.value - point.before.value
        text = f"{'+' if difference > 0 else ''}{format_amount(difference, change.series.unit)}"
        return Cell(text, detail="from 0", tone=tone)
    detail = "exactly"
    if point.low is not None and point.high is not None:
        detail = format_bounds(point.low, point.high)
    return Cell(format_level_change(point, change.series.unit), detail=detail, value=point.change, tone=tone)


def make_direction_cell(change: SeriesChange) -> Cell:
    tone = "bad" if change.point.worse else "good"
    return Cell(WORSE if change.point.worse else BETTER, detail="" if change.stands else "changed again", tone=tone)


def make_series_cell(change: SeriesChange) -> Cell:
    series = change.series
    text = f"{series.title} of {series.workload} {series.variant}"
    return Cell(flatten_text(text), detail=flatten_text(f"{series.how}, {series.machine}"))


def make_level_cell(value: float, change: SeriesChange) -> Cell:
    unit = change.series.unit
    values = change.point.before.value, change.point.after.value
    show = format_precise_amount if format_amount(values[0], unit) == format_amount(values[1], unit) else format_amount
    return Cell(show(value, unit), value=value)


def make_commits_cell(change: SeriesChange) -> Cell:
    between = change.point.commits
    lines = [between.reason, *change.point.environment_differences]
    return Cell(describe_commits(between), detail=flatten_text("; ".join(filter(None, lines))))


def make_confidence_cell(change: SeriesChange) -> Cell:
    """Confidence in the change and in its position."""
    point = change.point
    if point.p_value is None:
        return Cell("exact", detail="counted exactly")
    return Cell(f"p {format_p_value(point.p_value)}", detail=describe_place(change), value=point.p_value)


def format_p_value(p_value: float) -> str:
    """A probability; tiny ones only as a bound."""
    return "< 0.0001" if p_value < 1e-4 else f"= {units.format_significant(p_value, 1)}"


def describe_place(change: SeriesChange) -> str:
    """`run 24 of 40; with 95 % confidence 23 to 26 (9 commits)`. Runs are counted from 1."""
    point = change.point
    text = f"run {point.first_run + 1} of {len(change.series.points)}"
    if point.candidate_commits is None:
        return f"{text}, with 95 % confidence"
    count = (
        "" if point.candidate_commits.count is None else f", {format_plural(point.candidate_commits.count, 'commit')}"
    )
    return f"{text}; with 95 % confidence {point.earliest + 1} to {point.latest + 1}{count}"


def format_day(point: SeriesPoint) -> str:
    return point.time[:16].replace("T", " ") or "time unknown"


def describe_noise(series: QuantitySeries) -> str:
    """The detectable change of a series; empty for exact counts."""
    if series.noise is None or series.detectable is None:
        return ""
    return (
        f"runs vary by {units.format_percent(series.noise)}; 5 runs detect a change of "
        f"{units.format_percent(series.detectable)} with 80 % power"
    )


def list_notes(history: History) -> list[Note]:
    """Distinct notes, each with its number of series."""
    count = Counter(note for series in history.series for note in series.notes)
    return [
        replace(note, text=f"{format_plural(number, 'series', 'series')}: {note}") for note, number in count.items()
    ]
