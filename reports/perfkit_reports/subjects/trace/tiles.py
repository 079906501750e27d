"""The figures of a trace to look at first."""

from collections.abc import Iterator

from perfkit.analysis.model import time_split
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit.core.record.quantity import Unknown
from perfkit.core.texts.name_lists import list_first
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.devices.accelerator import is_cpu
from perfkit_reports import cells
from perfkit_reports.document.blocks import Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.subjects.trace.fixes import build_roofs_tile
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.subjects.trace.trace_sentences import (
    get_other_median_s,
    get_time_basis,
    name_critical_device,
    name_device,
)
from perfkit_reports.wording import format_bounded

_NAMED = 3  # unlike steps
_MARKED_APART = 0.01  # of a step, from its mark on the CPU


def build_tiles(analysis: TraceAnalysis) -> Iterator[Tile]:
    """Step, idle time, MFU and peak memory; what is not known is shown as such."""
    trace = choose_focus_trace(analysis)
    if trace is None:
        return
    yield Tile("Step time" if trace.steps else "Trace length", _make_step_cell(trace))
    yield _build_idle_tile(trace)
    yield Tile("MFU", _make_utilization_cell(trace))
    yield Tile("Peak memory", _make_peak_cell(trace))


def build_badges(analysis: TraceAnalysis) -> Iterator[Tile]:
    trace = choose_focus_trace(analysis)
    if trace is not None:
        yield Tile("Coverage", _make_coverage_cell(trace))
        yield from filter(None, [build_roofs_tile(trace)])


def _build_idle_tile(trace: RankTrace) -> Tile:
    """Idle time of the device; on a CPU, which is never idle, the time outside ops."""
    launches = trace.launches
    if trace.missing_device_reason:
        return Tile("Device idle", make_unknown_cell("launched work was not recorded"))
    if is_cpu(trace.device):
        outside = next((part for part in trace.time_split if part.category == time_split.PYTHON), None)
        if outside is None:
            return Tile("Outside ops", make_unknown_cell("the trace contains no ops"))
        detail = f"{units.format_seconds(outside.seconds)} {get_time_basis(trace)}: Python, dispatch and waiting"
        return Tile("Outside ops", Cell(units.format_percent(outside.share), detail=detail))
    title = f"{name_critical_device(trace) or name_device(trace)} idle"
    title = f"{title[0].upper()}{title[1:]}"
    if launches is None or trace.step_s <= 0:
        return Tile(title, make_unknown_cell("no work of the device recorded"))
    detail = launches.note or "share waiting for the CPU unknown"
    if launches.starved_s is not None:
        starved = units.format_seconds(launches.starved_s)
        detail = f"{units.format_seconds(launches.idle_s)} {get_time_basis(trace)}, {starved} with nothing queued"
    idle = format_bounded(units.format_percent(launches.idle_s / trace.step_s), launches.idle_bound)
    return Tile(title, Cell(idle, detail=detail))


def _make_peak_cell(trace: RankTrace) -> Cell:
    memory = trace.device_memory
    if trace.memory is None:
        return make_unknown_cell("no allocations recorded: record with profile_memory=True")
    if memory is None:
        return make_unknown_cell("no allocations of the device recorded, only the CPU's")
    return Cell(units.format_bytes(memory.peak_bytes), detail=memory.source)


def _make_step_cell(trace: RankTrace) -> Cell:
    if not trace.steps:
        return Cell(units.format_seconds(trace.step_s), detail=trace.step_basis or "no steps found")
    times = [step.seconds for step in trace.steps]
    median_s = get_other_median_s(trace)
    middle = "" if median_s is None else f", median {units.format_seconds(median_s)}"
    spread = f"{middle}, {units.format_seconds(min(times))} to {units.format_seconds(max(times))}"
    spread = spread if len(times) > 1 else ""
    count = "one step" if len(times) == 1 else f"mean of {len(times):,} steps"
    outliers = [f"{step.number} at {units.format_seconds(step.seconds)}" for step in trace.outlier_steps]
    without = f"; excluding step{'s' if len(outliers) > 1 else ''} {list_first(outliers, _NAMED)}" if outliers else ""
    marked_s, marked = trace.marked_step_s, ""
    if marked_s is not None and abs(marked_s - trace.step_s) > _MARKED_APART * trace.step_s:
        marked = f"; bounded on the device, on the CPU {units.format_seconds(marked_s)}"
    missing = f"; {len(trace.unrecorded_steps):,} steps not recorded" if trace.unrecorded_steps else ""
    detail = f"{count}{spread}{without}{missing}; {trace.step_basis}{marked}"
    return Cell(units.format_seconds(trace.step_s), detail=detail)


def _make_coverage_cell(trace: RankTrace) -> Cell:
    coverage = trace.coverage
    if trace.missing_device_reason:
        return make_unknown_cell("launched work was not recorded")
    if coverage.kernel_s <= 0:
        return make_unknown_cell("the trace contains no kernels and no ops")
    parts = {
        "inferred": coverage.inferred_s / coverage.kernel_s,
        "as bounds": coverage.bounded_s / coverage.kernel_s,
        "with estimated bytes": coverage.estimated_s / coverage.kernel_s,
    }
    return Cell(
        units.format_percent(coverage.flops_s / coverage.kernel_s),
        detail=f"FLOPs; {units.format_percent(coverage.bytes_s / coverage.kernel_s)} with bytes, "
        f"{units.format_percent(coverage.linked_s / coverage.kernel_s)} matched with an op"
        + "".join(f", {units.format_percent(share)} {what}" for what, share in parts.items() if share > 0),
    )


def _make_utilization_cell(trace: RankTrace) -> Cell:
    mfu, hfu = (cells.make_quantity_cell(cells.drop_whole(share)) for share in (trace.mfu, trace.hfu))
    if isinstance(trace.mfu, Unknown):
        return mfu
    told = (
        f"of {trace.mfu.of}" if trace.mfu.of else "",
        "" if isinstance(trace.hfu, Unknown) else f"HFU {hfu.text}",
        trace.mfu.how.value,
        "counts masked attention pairs as PaLM does" if UNMASKED in trace.mfu.source else "",
    )
    return Cell(mfu.text, detail="; ".join(filter(None, told)))
