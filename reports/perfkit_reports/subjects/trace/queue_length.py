"""The queue length of a device's streams: over time as a chart, and by stream."""

from collections.abc import Sequence

from perfkit.analysis.model.launches import QueueSeries, StreamQueue
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit_reports.cells import make_integer_cell, make_share_cell, make_short_cell
from perfkit_reports.charts.frame import build_axis, build_figure, build_scatter, choose_time_scale, format_hover
from perfkit_reports.document.blocks import Block, Chart
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.palette import BLUE, SKY
from perfkit_reports.subjects.tables import make_table

_TITLE = "Queue length"
_HEIGHT = 240
_BY_TIME = "over the time of the steps"

_COLUMNS: tuple[Column[StreamQueue], ...] = (
    Column("Stream", lambda row: make_short_cell(row.stream), numeric=False),
    Column("Device", lambda row: Cell(str(row.device), value=row.device)),
    Column("Mean", lambda row: Cell(units.format_significant(row.mean), value=row.mean), help=_BY_TIME),
    Column("Median", lambda row: make_integer_cell(int(row.median)), help=_BY_TIME),
    Column("Maximum", lambda row: make_integer_cell(int(row.most)), help=_BY_TIME),
    Column("Empty", lambda row: make_share_cell(row.empty_share), help="share of the time of the steps", meter=True),
    Column("Launched", lambda row: make_integer_cell(row.launched), help="in the whole trace"),
    Column("Without launch", lambda row: make_integer_cell(row.without_launch), help="not in the queue length"),
)


def build_queue_blocks(trace: RankTrace, end: str) -> Sequence[Block]:
    """The chart and the table of a trace; none where its launches are not known."""
    chart = [] if trace.queue_series is None else [_build_chart(trace.queue_series, end)]
    return (*chart, *make_table(f"queues{end}", f"{_TITLE} by stream", _COLUMNS, trace.queues, "stream"))


def _build_chart(series: QueueSeries, end: str) -> Chart:
    last_s = series.begin_s + series.interval_s * len(series.mean)
    scale, unit = choose_time_scale(last_s)
    starts = [series.begin_s + place * series.interval_s for place in range(len(series.mean))]
    xs = [round(start / scale, 5) for start in starts]
    hover = [
        format_hover(
            units.format_seconds(start), f"mean {units.format_significant(mean)}", f"maximum {most:,} kernels queued"
        )
        for start, mean, most in zip(starts, series.mean, series.most, strict=True)
    ]
    lines = {"shape": "hv", "width": 1.5}
    traces = [
        build_scatter("lines", xs, series.most, line={**lines, "color": SKY}),
        build_scatter("lines", xs, series.mean, hover, line={**lines, "color": BLUE}),
    ]
    figure = build_figure(
        traces,
        height=_HEIGHT,
        xaxis=build_axis(f"time in the trace ({unit})"),
        yaxis=build_axis("queue length", rangemode="tozero"),
    )
    return Chart(
        id=f"queue-length{end}",
        figure=figure,
        label="Queue length of all streams over time",
        title=_TITLE,
        caption="Kernels, copies and fills launched and not yet finished, in all streams.",
        height=_HEIGHT,
        legend=[("maximum", SKY, ""), ("mean", BLUE, "")],
    )
