"""Charts step time by rank, split into compute, exposed communication and idle, with delays: one bar per rank, or for
many ranks a map of deviations."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

from perfkit.analysis.model import time_split
from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.model.step import TimeShare
from perfkit.core import units
from perfkit_reports.charts import frame
from perfkit_reports.charts.frame import (
    POINT,
    Figure,
    Trace,
    build_axis,
    build_figure,
    build_scatter,
    choose_time_scale,
    escape_text,
    format_hover,
)
from perfkit_reports.document.blocks import Chart
from perfkit_reports.palette import BLUE, VERMILLION, build_legend, interpolate_color, order_categories

_STEP = "step"
COMPUTING, IDLE, OTHER, LATE = "computing", "idle", "other", "late at collectives"
CATEGORIES = (COMPUTING, time_split.COMMUNICATION, IDLE, OTHER)
_LABELLED = 16  # more names than this do not fit below the bars
_MOST_COLUMNS = 256  # of more ranks, those furthest from the median: a page has no room for all
_LEAST = 0.05  # of the median step: least range of the color scale, so that noise shows no color
_Value = TypeVar("_Value")
_Known = Mapping[str, Sequence[float | None]]


def build_chart(rows: Sequence[RankRow], splits: Mapping[str, Sequence[TimeShare]], block: str) -> Chart:
    """Build the chart of two ranks or more: a single rank has no straggler. `splits` are the parts of the ranks' steps
    by label; others are split as far as their rows allow. `block` is the chart's id.
    """
    if len(rows) <= _LABELLED:
        return Chart(
            id=block,
            figure=build_bars_figure(rows),
            label="Step time by rank; the table below has the same figures",
            caption="◇ straggler delay: time that others wait for the rank at collectives.",
            height=340,
            legend=[(name, fill.color, fill.pattern) for name, fill in build_legend([_list_used_categories(rows)])],
        )
    known = _collect_figures(rows, splits)
    away = _compute_deviations(known)
    far = max(_LEAST, *(abs(share) for shares in away.values() for share in shares))
    places = _choose_columns(away, len(rows))
    shown = "" if len(places) == len(rows) else f"The {len(places)} ranks furthest from the median. "
    return Chart(
        id=block,
        figure=_build_map([rows[place].label for place in places], _select(known, places), _select(away, places), far),
        label=f"Deviation of {len(rows):,} ranks from the median; the tables have the same figures",
        caption=f"{shown}Each column is a rank. Its color is the deviation from the median of all ranks, "
        f"up to {units.format_percent(far, 0)} of the median step.",
        legend=[("longer than the median", VERMILLION, ""), ("shorter", BLUE, "")],
    )


def _choose_columns(away: Mapping[str, Sequence[float]], ranks: int) -> list[int]:
    """The places of the ranks to show, in their order: of many those furthest from the median in any figure."""
    furthest = [max(map(abs, shares)) for shares in zip(*away.values(), strict=True)]
    return sorted(sorted(range(ranks), key=lambda place: -furthest[place])[:_MOST_COLUMNS])


def _select(figures: Mapping[str, Sequence[_Value]], places: Sequence[int]) -> dict[str, list[_Value]]:
    return {name: [values[place] for place in places] for name, values in figures.items()}


def _build_map(names: Sequence[str], known: _Known, away: Mapping[str, Sequence[float]], far: float) -> Figure:
    """Build a map with a row per figure and a column per rank; colors end `far` from the median, as a share of its
    step."""
    columns = [escape_text(name, 18) for name in names]
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": escape_text(name),
            "x": columns,
            "y": [0.94] * len(names),
            "base": place,
            "width": 1,
            "marker": {"color": [interpolate_color(share / far) for share in away[name]], "line": {"width": 0}},
            "hovertext": ["unknown" if value is None else units.format_seconds(value) for value in values],
            "hovertemplate": f"<b>%{{x}}: {escape_text(name)}</b><br>%{{hovertext}}<extra></extra>",
            "customdata": list(names),  # a click picks the rank
        }
        for place, (name, values) in enumerate(known.items())
    ]
    return build_figure(
        traces,
        height=40 + 40 * len(known),
        barmode="overlay",
        barcornerradius=0,
        bargap=0,
        margin={"l": 130, "r": 16, "t": 8, "b": 30},
        xaxis={**_build_columns_axis(len(names)), "type": "category", "tickvals": columns[:: max(1, len(names) // 8)]},
        yaxis={
            "tickvals": [place + 0.47 for place in range(len(known))],
            "ticktext": [escape_text(name) for name in known],
            "range": [len(known), -0.06],
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
    )


def _build_columns_axis(count: int) -> dict[str, Any]:
    return {"showgrid": False, "range": [-0.6, count - 0.4]}


def _collect_figures(
    rows: Sequence[RankRow], splits: Mapping[str, Sequence[TimeShare]]
) -> dict[str, list[float | None]]:
    """Seconds of every rank by the figures that any rank has."""
    parts = [
        {share.category: share.seconds for share in splits[row.label]} if splits.get(row.label) else _split_step(row)
        for row in rows
    ]
    known: dict[str, list[float | None]] = {_STEP: [row.step_s for row in rows]}
    known |= {
        category: [part.get(category, 0.0) for part in parts] for category in order_categories(list(map(list, parts)))
    }
    known[LATE] = [row.late_s for row in rows]
    return {name: values for name, values in known.items() if any(values)}


def get_cell_color(away: float | None) -> str:
    """The color of a cell, from -1 to 1; unknown values have none."""
    return "#00000000" if away is None else interpolate_color(max(-1.0, min(1.0, away)))


def _compute_deviations(known: _Known) -> dict[str, list[float]]:
    """Deviation of each rank from the median of all, as a share of the median step; 0 where unknown."""
    middles = {name: median(value for value in values if value is not None) for name, values in known.items()}
    step = middles[_STEP]
    return {
        name: [0.0 if value is None or step <= 0 else (value - middles[name]) / step for value in values]
        for name, values in known.items()
    }


def _list_used_categories(rows: Sequence[RankRow]) -> list[str]:
    return [category for category in CATEGORIES if any(_split_step(row)[category] for row in rows)]


def build_bars_figure(rows: Sequence[RankRow]) -> Figure:
    scale, unit = choose_time_scale(max(row.step_s for row in rows))
    places = list(range(len(rows)))
    texts = [_format_hover(row) for row in rows]
    traces = [
        frame.build_bars(
            fill,
            places,
            (round(_split_step(row)[category] / scale, 5) for row in rows),
            texts,
            name=category,
            customdata=[row.label for row in rows],  # a click picks the rank
        )
        for category, fill in build_legend([_list_used_categories(rows)])
    ]
    late = [(place, row.late_s) for place, row in enumerate(rows) if row.late_s is not None]
    if late:
        traces.append(
            build_scatter(
                "markers",
                [place for place, _ in late],
                [round(value / scale, 5) for _, value in late],
                [texts[place] for place, _ in late],
                name=LATE,
                cliponaxis=False,
                marker={**POINT, "symbol": "diamond", "size": 10},
            )
        )
    return build_figure(
        traces,
        barmode="stack",
        bargap=0.35,
        xaxis={
            **_build_columns_axis(len(rows)),
            "tickvals": places,
            "ticktext": [escape_text(row.label, 18) for row in rows],
        },
        yaxis=build_axis(f"step time ({unit})", rangemode="tozero"),
    )


def _split_step(row: RankRow) -> dict[str, float]:
    """Split the step's seconds; the rest of compute, exposed communication and idle is `other`."""
    known = {COMPUTING: row.compute_s, time_split.COMMUNICATION: row.exposed_communication_s, IDLE: row.idle_s}
    return {**known, OTHER: max(0.0, row.step_s - sum(known.values()))}


def _format_hover(row: RankRow) -> str:
    return format_hover(
        row.label,
        f"step {units.format_seconds(row.step_s)}",
        f"compute {units.format_seconds(row.compute_s)}, idle {units.format_seconds(row.idle_s)}",
        f"communication {units.format_seconds(row.communication_s)}, "
        f"{units.format_seconds(row.exposed_communication_s)} of it exposed",
        "straggler delay unknown"
        if row.late_s is None
        else "first to reach collectives"
        if row.late_s == 0
        else f"reaches collectives {units.format_seconds(row.late_s)} after the first rank",
    )
