"""The page of a history: the changes in a table, and a small plot of every series."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from perfkit.check.history.result import History, Series
from perfkit_reports.charts.history import history_figure
from perfkit_reports.page import embed, page
from perfkit_reports.subjects.history import changes as history_cells


@dataclass(frozen=True)
class _Title:
    """What the frame of every page asks for."""

    title: str
    perfkit: str
    created_at: str


@dataclass(frozen=True)
class Plot:
    """A series with the name of its figure."""

    name: str
    series: Series


def render(history: History) -> str:
    """The whole page. Everything from the history is escaped; nothing is fetched when it is opened."""
    plots = [Plot(f"series-{number}", series) for number, series in enumerate(history.series)]
    changed = [plot for plot in plots if plot.series.changes or plot.series.pending]
    changes = history_cells.changes(history)
    order = {key: place for place, key in enumerate(dict.fromkeys(_key(change.series) for change in changes))}
    changed.sort(key=lambda plot: order.get(_key(plot.series), len(order)))
    steady = [plot for plot in plots if not plot.series.changes and not plot.series.pending]
    return page(
        "check/history.html.j2",
        {plot.name: history_figure(plot.series) for plot in plots},
        analysis=_Title(f"History of {history.folder}", history.perfkit, history.created_at),
        history=history,
        said=history_cells,
        changes=changes,
        groups=[("changed", changed), ("steady", steady)],
        workloads=_each(f"{series.workload} {series.variant}" for series in history.series),
        quantities=_each(series.title for series in history.series),
        history_json=embed(msgspec.json.encode(history).decode()),
    )


def _key(series: Series) -> tuple[str, ...]:
    return series.workload, series.variant, series.quantity, series.machine, series.how


def _each(names: Iterable[str]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys(names))
