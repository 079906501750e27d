"""The figures of a trace to look at first."""

from collections.abc import Iterator

from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit.core.record import Unknown
from perfkit.core.texts.name_lists import list_first
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit_reports import cells
from perfkit_reports.document.blocks import Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.subjects.trace.improvements import (
    compute_saving_s,
    get_cpu_path_share,
    get_saving_bound,
    get_simulated_roofs_s,
    has_roofs,
    is_limited_by_cpu,
)
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.subjects.trace.trace_sentences import (
    get_other_median_s,
    get_time_basis,
    name_critical_device,
)
from perfkit_reports.wording import format_bounded

_NAMED = 3  # unlike steps
_MARKED_APART = 0.01  # of a step, from its mark on the CPU


def build_tiles(analysis: TraceAnalysis) -> Iterator[Tile]:
    """The most important first."""
    trace = choose_focus_trace(analysis)
    if trace is None:
        return
    yield Tile("Step time" if trace.steps else "Trace length", _make_step_cell(trace))
    yield Tile("Potential savings", _make_saving_cell(trace))
    yield Tile("Coverage", _make_coverage_cell(trace))
    yield Tile("MFU", _make_utilization_cell(trace))
    overlap, launches = trace.overlap, trace.launches
    if overlap.communication_s > 0:
        hidden = 1 - overlap.exposed_communication_s / overlap.communication_s
        whole = units.format_seconds(overlap.communication_s)
        detail = f"of {whole}; {units.format_percent(hidden, 0)} overlapped with compute"
        yield Tile("Exposed communication", Cell(units.format_seconds(overlap.exposed_communication_s), detail=detail))
    if launches is not None and trace.step_s > 0:
        detail = launches.note or "share waiting for the CPU unknown"
        if launches.starved_s is not None:
            starved = units.format_seconds(launches.starved_s)
            detail = f"{units.format_seconds(launches.idle_s)} {get_time_basis(trace)}, {starved} with nothing queued"
        idle = format_bounded(units.format_percent(launches.idle_s / trace.step_s), launches.idle_bound)
        yield Tile(f"{(name_critical_device(trace) or 'device').capitalize()} idle", Cell(idle, detail=detail))
    if trace.memory is not None:
        yield Tile("Peak memory", _make_peak_cell(trace.device_memory))


def _make_peak_cell(memory: MemoryAccount | None) -> Cell:
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


def _make_saving_cell(trace: RankTrace) -> Cell:
    if trace.missing_device_reason:
        return make_unknown_cell("launched work was not recorded")
    if trace.unknown_work_reason:
        return make_unknown_cell("no work recognized")
    together = trace.gains.together_s if trace.gains is not None else None
    if not has_roofs(trace):
        return _make_fixes_cell(trace, together) if together else make_unknown_cell("no ceilings known for the device")
    saving = compute_saving_s(trace)
    if saving is None:
        return make_unknown_cell("no work with both a cost and a roof")
    at_roofs = get_simulated_roofs_s(trace)
    if at_roofs is None:
        summed = format_bounded(units.format_seconds(saving), get_saving_bound(trace))
        path = f", critical path {units.format_percent(get_cpu_path_share(trace), 0)} CPU"
        limit = path if is_limited_by_cpu(trace) else ""
        return Cell(summed, detail=f"{_format_share(saving, trace)}all kernels at their roofline{limit}")
    if together is not None and together > at_roofs:
        return _make_fixes_cell(trace, together)
    detail = f"{_format_share(at_roofs, trace)}all kernels at their roofline, simulated"
    return Cell(units.format_seconds(at_roofs), detail=detail)


def _make_fixes_cell(trace: RankTrace, together_s: float) -> Cell:
    detail = f"{_format_share(together_s, trace)}all fixes combined, simulated"
    return Cell(units.format_seconds(together_s), detail=detail)


def _format_share(part: float, trace: RankTrace) -> str:
    whole = "step" if trace.steps else "trace"
    return f"{units.format_percent(part / trace.step_s, 0)} of the {whole}, " if trace.step_s > 0 else ""


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
