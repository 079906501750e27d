"""Counters that were sampled while a trace was recorded: their means and their course."""

from collections.abc import Sequence

from perfkit.analysis.model.launches import CounterRow, UnitCounters
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit_reports.cells import make_integer_cell, make_short_cell
from perfkit_reports.charts.frame import build_axis, build_figure, build_scatter, choose_time_scale, format_hover
from perfkit_reports.document.blocks import Block, Chart, Choice
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.palette import BLUE
from perfkit_reports.subjects.tables import make_table

_TITLE = "Sampled counters"
_HEIGHT = 220


def _make_cell(value: float | None, reason: str) -> Cell:
    return make_unknown_cell(reason) if value is None else Cell(units.format_significant(value), value=value)


_COLUMNS: tuple[Column[CounterRow], ...] = (
    Column("Counter", lambda row: make_short_cell(row.name), numeric=False),
    Column("Device", lambda row: _make_cell(row.device, "not a device's, or not recorded whose")),
    Column("Mean", lambda row: _make_cell(row.mean, "")),
    Column(
        "In kernels",
        lambda row: _make_cell(row.busy_mean, "no sample while a kernel ran"),
        help="mean of the samples taken while the device ran a kernel",
    ),
    Column("5 %", lambda row: _make_cell(row.low, ""), help="of samples are lower"),
    Column("95 %", lambda row: _make_cell(row.high, ""), help="of samples are lower"),
    Column("Samples", lambda row: make_integer_cell(row.samples)),
    Column("Per second", lambda row: _make_cell(row.rate_hz, "a single sample")),
)


_UNITS: tuple[Column[UnitCounters], ...] = (
    Column("Phase or kernel", lambda row: make_short_cell(row.name or "no phase"), numeric=False),
    Column("Time", lambda row: Cell(units.format_seconds(row.seconds), value=row.seconds), help="of samples, per step"),
    Column("SM active", lambda row: _make_share_cell(row.sm_active)),
    Column("Tensor active", lambda row: _make_share_cell(row.tensor_active)),
    Column("Memory active", lambda row: _make_share_cell(row.memory_active), help="reads and writes, of the peak"),
    Column("Measured bytes", lambda row: _make_bytes_cell(row.measured_bytes, "no memory samples or datasheet")),
    Column("Modeled bytes", lambda row: _make_bytes_cell(row.modeled_bytes, "a kernel's bytes are unknown")),
    Column("Model / measured", lambda row: _make_ratio_cell(row)),
    Column("Samples", lambda row: make_integer_cell(row.samples)),
)
_UNITS_TITLE = "Sampled units and memory"
_UNITS_CAPTION = (
    "Samples in kernels of the steps, per step. Measured bytes: share of the datasheet's bandwidth. Kernels: those "
    "longer than two sampling intervals."
)


def _make_share_cell(value: float | None) -> Cell:
    return make_unknown_cell("not sampled") if value is None else Cell(units.format_percent(value), value=value)


def _make_bytes_cell(value: float | None, reason: str) -> Cell:
    return make_unknown_cell(reason) if value is None else Cell(units.format_bytes(value), value=value)


def _make_ratio_cell(row: UnitCounters) -> Cell:
    if not row.measured_bytes or row.modeled_bytes is None:
        return make_unknown_cell("bytes are not known on both sides")
    ratio = row.modeled_bytes / row.measured_bytes
    return Cell(f"{ratio:.2f}", value=ratio)


def build_counter_blocks(trace: RankTrace, end: str) -> Sequence[Block]:
    """The table and a chart for each counter; none without any."""
    if not trace.counters:
        return ()
    several = len({row.device for row in trace.counters}) > 1
    charts: dict[tuple[str, ...], Block] = {
        (f"{row.name}, device {row.device}" if several else row.name,): _build_chart(row, f"{place}{end}")
        for place, row in enumerate(trace.counters)
    }
    caption = "Within the steps." if trace.steps else "Within the whole trace."
    return (
        *make_table(f"counters{end}", _TITLE, _COLUMNS, trace.counters, "counter", caption=caption),
        *make_table(
            f"units{end}",
            _UNITS_TITLE,
            _UNITS,
            trace.unit_counters,
            "row",
            caption=_UNITS_CAPTION,
            data="unit_counters",
        ),
        Choice(id=f"counter-charts{end}", keys=("Counter",), options=charts),
    )


def _build_chart(row: CounterRow, end: str) -> Chart:
    known = [(row.begin_s + place / row.series_hz, mean) for place, mean in enumerate(row.series) if mean is not None]
    scale, unit = choose_time_scale(row.begin_s + len(row.series) / row.series_hz)
    hover = [
        format_hover(units.format_seconds(start), f"{row.name}: {units.format_significant(mean)}")
        for start, mean in known
    ]
    xs = [round(start / scale, 5) for start, _ in known]
    line = {"shape": "hv", "width": 1.5, "color": BLUE}
    figure = build_figure(
        [build_scatter("lines", xs, [mean for _, mean in known], hover, line=line)],
        height=_HEIGHT,
        xaxis=build_axis(f"time in the trace ({unit})"),
        yaxis=build_axis(row.name, rangemode="tozero"),
    )
    return Chart(id=f"counter{end}", figure=figure, label=f"{row.name} over time", height=_HEIGHT)
