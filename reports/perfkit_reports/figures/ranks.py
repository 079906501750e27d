"""Step time of every rank, split into computing, exposed communication and idle, with how late it comes."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.model.trace import RankRow
from perfkit.analysis.trace import timeline
from perfkit_reports.charts.frame import Figure, Trace, figure, hover, safe, time_scale
from perfkit_reports.palette import bar_pattern, category_fills

COMPUTING, IDLE, OTHER, LATE = "computing", "idle", "other", "late at collectives"
_LABELLED = 16  # more names than this do not fit below the bars


def ranks(rows: Sequence[RankRow]) -> Figure | None:
    """None for fewer than two ranks: one alone is nobody's straggler."""
    if len(rows) < 2:
        return None
    scale, unit = time_scale(max(row.step_s for row in rows))
    places = list(range(len(rows)))
    parts = {category: [_parts(row)[category] for row in rows] for category in CATEGORIES}
    fills = category_fills(list(CATEGORIES))
    texts = [_hover(row) for row in rows]
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": category,
            "x": places,
            "y": [round(value / scale, 5) for value in values],
            "marker": {"color": fills[category].colour, "pattern": bar_pattern(fills[category])},
            "hovertext": texts,
            "hoverinfo": "text",
        }
        for category, values in parts.items()
        if any(values)
    ]
    late = [(place, row.late_s) for place, row in zip(places, rows, strict=True) if row.late_s is not None]
    if late:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": LATE,
                "x": [place for place, _ in late],
                "y": [round(value / scale, 5) for _, value in late],
                "marker": {
                    "symbol": "diamond",
                    "size": 10,
                    "color": "#ffffff",
                    "line": {"width": 2, "color": "#16181d"},
                },
                "hovertext": [texts[place] for place, _ in late],
                "hoverinfo": "text",
            }
        )
    named = len(rows) <= _LABELLED
    return figure(
        traces,
        barmode="stack",
        bargap=0.35 if named else 0.1,
        margin={"l": 64, "r": 16, "t": 16, "b": 52},
        xaxis={
            "tickvals": places if named else [place for place in places if place % (len(rows) // 8) == 0],
            "ticktext": [safe(row.label, 18) for row in rows]
            if named
            else [safe(row.label, 18) for place, row in enumerate(rows) if place % (len(rows) // 8) == 0],
            "showgrid": False,
            "range": [-0.6, len(rows) - 0.4],
        },
        yaxis={"title": {"text": f"time of a step ({unit})"}, "rangemode": "tozero"},
    )


CATEGORIES = (COMPUTING, timeline.COMMUNICATION, IDLE, OTHER)


def _parts(row: RankRow) -> dict[str, float]:
    """Seconds of the step; what is neither computing, exposed communication nor idle is `other`."""
    known = {COMPUTING: row.compute_s, timeline.COMMUNICATION: row.exposed_communication_s, IDLE: row.idle_s}
    return {**known, OTHER: max(0.0, row.step_s - sum(known.values()))}


def _hover(row: RankRow) -> str:
    return hover(
        row.label,
        f"step {units.seconds(row.step_s)}",
        f"computing {units.seconds(row.compute_s)}, idle {units.seconds(row.idle_s)}",
        f"communication {units.seconds(row.communication_s)}, "
        f"{units.seconds(row.exposed_communication_s)} of it exposed",
        "how late it comes to collectives is not known"
        if row.late_s is None
        else f"comes {units.seconds(row.late_s)} after the first rank to collectives",
    )
