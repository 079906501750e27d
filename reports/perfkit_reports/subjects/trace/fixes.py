"""The fixes that shorten a step most, from the gains of the findings."""

from collections.abc import Sequence

from perfkit.analysis.findings.rule import GAIN
from perfkit.analysis.model import time_split
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_LEAST, AT_MOST, OUTSIDE
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit_reports import findings
from perfkit_reports.document.blocks import Findings, Tile
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.fixes import Fix, Fixes
from perfkit_reports.subjects.trace.limit import is_limited_by_cpu
from perfkit_reports.subjects.trace.rows.costs import compute_gain_s
from perfkit_reports.subjects.trace.series import choose_focus_trace
from perfkit_reports.wording import format_bounded, format_sentence

_MOST = 3
_LEAST_SHARE = 5e-3  # of the step: a smaller saving is none
_LITTLE = 0.02  # of the step: what is said to gain little
_WHOLE, _ENOUGH = 0.995, 0.8  # of the working time: roofs known for all of it, and for so much that faster kernels are
_NO_EXCESS = 5e-3  # of the step: so much more than its own part a saving may be before it names another
# By finding that leaves the device's work as it is: the parts of the step that it reads like; of others the last row.
_OWN_PARTS = {
    "launch.latency": (time_split.IDLE_QUEUED,),
    "": (time_split.WAITING_FOR_CPU, time_split.DATA, time_split.PYTHON),
}
# What shortens the work of the device alone: an upper bound means nothing where the CPU limits the step.
_OF_DEVICE = ("comm.exposed", "copy.pageable")
# By finding: what to do in a few words. Findings of other kinds have their title.
_INSTRUCTIONS = {
    "accumulation.small_batches": "train larger micro-batches",
    "attention.low_efficiency": "use a faster attention backend",
    "attention.unfused": "use fused attention",
    "autograd.anomaly_detection": "switch off anomaly detection",
    "autograd.repeated_backward": "run backward once",
    "autograd.unused_graph": "compute under no_grad",
    "batch_norm.layout": "run batch norm in channels-last",
    "calls.repeated": "batch repeated calls",
    "checkpointing.recompute": "checkpoint fewer blocks",
    "clip.repeated": "clip gradients once",
    "comm.accumulation": "reduce gradients once per step",
    "comm.bubble": "use more microbatches",
    "comm.exposed": "overlap communication",
    "comm.late_buckets": "reduce gradients earlier",
    "comm.slow_link": "check the link's bandwidth",
    "comm.small_messages": "combine small collectives",
    "comm.waiting": "find the late rank",
    "convolution.low_efficiency": "tune the convolutions",
    "convolution.transposes": "use channels-last tensors",
    "copy.exposed": "overlap copies",
    "copy.materialized": "use views, not copies",
    "copy.pageable": "copy from pinned memory",
    "cpu.dispatch": "run fewer, larger ops",
    "data.starved": "load data faster",
    "devices.in_turn": "let devices work at once",
    "dtype.conversions": "avoid dtype conversions",
    "dtype.fp64": "compute in fp32",
    "dtype.slow_half": "compute in fp32 or bf16",
    "fill.zeros": "free gradients instead of zeroing",
    "fusion.elementwise": "fuse memory-bound ops",
    "fusion.norm": "fuse normalizations",
    "fusion.softmax": "fuse softmax",
    "gemm.fp32": "run GEMMs in a faster dtype",
    "gemm.low_efficiency": "speed up GEMMs",
    "gemm.one_hot": "index instead of multiplying",
    "gemm.scattered": "index instead of multiplying",
    "gemm.unaligned": "align GEMM sizes",
    "idle.long_gaps": "fill long idle gaps",
    "indexing.slow_updates": "index fewer or sorted rows",
    "launch.cpu_bound": "launch with CUDA graphs",
    "launch.latency": "run fewer, longer kernels",
    "launch.short_kernels": "fuse short kernels",
    "limit.missing_kernels": "record the device's kernels",
    "limit.no_ceilings": "name the device",
    "limit.no_shapes": "record shapes",
    "limit.no_steps": "mark the steps",
    "limit.unknown_work": "record with torch.profiler",
    "linalg.inverse": "solve instead of inverting",
    "optimizer.unfused": "fuse the optimizer",
    "random.generation": "draw fewer random numbers",
    "ranks.straggler": "speed up the straggler",
    "ranks.waiting": "balance the ranks",
    "step.metrics": "compute metrics less often",
    "sync.copy": "copy without blocking",
    "sync.data_dependent_shape": "keep shapes fixed",
    "sync.device_allocation": "allocate device memory once",
    "sync.item": "read values less often",
    "sync.other": "remove synchronization",
}


def list_gains(analysis: TraceAnalysis) -> list[Finding]:
    """Findings with a known gain of time, the largest first; those that need an owner have it in `variant`."""
    by_label = {trace.label: trace for trace in analysis.traces}
    return [
        finding
        for finding in analysis.findings
        if finding.severity == GAIN and finding.variant in by_label and _shortens(finding, by_label[finding.variant])
    ]


def _shortens(finding: Finding, trace: RankTrace) -> bool:
    if finding.expected_s is None or not trace.is_work_known or finding.expected_s < _LEAST_SHARE * trace.step_s:
        return False
    return finding.simulated_s is not None or finding.id not in _OF_DEVICE or not is_limited_by_cpu(trace)


def build_fixes(analysis: TraceAnalysis) -> Fixes:
    """The first fixes, and below what all of them save together; without a gain, what makes the figures better."""
    trace = choose_focus_trace(analysis)
    gains = list_gains(analysis)
    chosen = gains or [finding for finding in analysis.findings if finding.action and finding.expected_s is None]
    anchors = {id(finding): anchor for anchor, finding in Findings(id="", items=analysis.findings).anchored}
    by_label = {each.label: each for each in analysis.traces}
    items = tuple(
        _build_fix(finding, by_label.get(finding.variant), anchors[id(finding)], several=len(by_label) > 1)
        for finding in chosen[:_MOST]
    )
    caption = "" if trace is None else " ".join(_list_sums(trace, analysis.findings))
    return Fixes(id="fixes", items=items, caption=caption)


def _build_fix(finding: Finding, trace: RankTrace | None, anchor: str, *, several: bool) -> Fix:
    saves = make_unknown_cell("no known gain of time")
    if finding.expected_s is not None:
        share = ""
        if trace is not None and trace.step_s > 0 and (finding.per_step or not trace.steps):
            unit = "step" if trace.steps else "trace"
            share = f"{units.format_percent(finding.expected_s / trace.step_s, 0)} of the {unit}"
            share = ", ".join(filter(None, (share, describe_excess(finding, trace))))
        saves = Cell(units.format_seconds(finding.expected_s), detail=share, value=finding.expected_s)
    return Fix(
        get_instruction(finding),
        saves,
        findings.format_action(finding),
        get_confidence(finding),
        finding.variant if several else "",
        anchor,
    )


def describe_excess(finding: Finding, trace: RankTrace) -> str:
    """`243 us of it other idle time`: what a fix saves beyond the part of the step that it reads like; else empty."""
    simulated_s, touched = finding.simulated_s, finding.touched
    if simulated_s is None or touched is None:
        return ""
    if touched.kernels_s > 0:
        own_s, other = touched.kernels_s, "launch overhead"
    else:
        parts = _OWN_PARTS.get(finding.id, _OWN_PARTS[""])
        own_s, other = sum(part.seconds for part in trace.time_split if part.category in parts), "other idle time"
    excess_s = simulated_s - own_s
    return f"{units.format_seconds(excess_s)} of it {other}" if excess_s > _NO_EXCESS * trace.step_s else ""


def get_instruction(finding: Finding) -> str:
    return format_sentence(_INSTRUCTIONS.get(finding.id, finding.title)).rstrip(".")


def get_confidence(finding: Finding) -> str:
    """How sure a saving is: replayed with the fix, or summed over the work, whose bound it is."""
    if finding.expected_s is None:
        return "unknown"
    if finding.simulated_s is not None:
        return "simulated"
    return "upper bound" if finding.gain_bound == AT_MOST else "sum, lower bound"


def describe_advice(analysis: TraceAnalysis, trace: RankTrace) -> str:
    """`Launch with CUDA graphs to save 142 ms (simulated); faster kernels alone save only 2.40 us.`

    Empty where nothing is known to shorten the step of the trace.
    """
    best = next((finding for finding in list_gains(analysis) if finding.variant == trace.label), None)
    if best is None or best.expected_s is None:
        return ""
    saving = format_bounded(units.format_seconds(best.expected_s), "" if best.simulated_s is not None else "up to")
    excess = describe_excess(best, trace)
    sure = f" (simulated{excess and f', {excess}'})" if best.simulated_s is not None else ""
    roofs_s = get_simulated_roofs_s(trace)
    known = (trace.modeled_share or 0.0) >= _ENOUGH
    little = roofs_s is not None and known and is_limited_by_cpu(trace) and roofs_s < _LITTLE * trace.step_s
    rest = f"; faster kernels alone save {_format_little(roofs_s or 0.0)}" if little else ""
    return f"{get_instruction(best)} to save {saving}{sure}{rest}."


def _format_little(saving_s: float) -> str:
    return f"only {units.format_seconds(saving_s)}" if saving_s > 0 else "nothing"


def _format_less(text: str, saving_s: float) -> str:
    return f"{text} less" if saving_s > 0 else "no gain"


def _list_sums(trace: RankTrace, items: Sequence[Finding]) -> list[str]:
    """What all simulated fixes save at once."""
    lines = []
    fixes = len({finding.id for finding in items if finding.variant == trace.label and finding.simulated_s})
    together_s = None if trace.gains is None else trace.gains.together_s
    others = " (see Findings)" if fixes > _MOST else ""
    if together_s is not None and fixes > 1:
        lines.append(
            f"All {fixes} simulated fixes{others} combined: {units.format_seconds(trace.step_s)} → "
            f"{units.format_seconds(max(0.0, trace.step_s - together_s))}."
        )
    return lines


def build_roofs_tile(trace: RankTrace) -> Tile | None:
    """What all kernels with a known roof save at it: simulated, else summed; None where that means nothing."""
    roofs_s, summed_s, modeled = get_simulated_roofs_s(trace), compute_saving_s(trace), trace.modeled_share or 0.0
    known = "" if modeled >= _WHOLE else f"; roofs known for {units.format_percent(modeled, 0)} of the work"
    title = "All kernels at roofline" if modeled >= _WHOLE else "Kernels at known roofs"
    if roofs_s is not None:
        return Tile(title, Cell(_format_less(units.format_seconds(roofs_s), roofs_s), detail=f"simulated{known}"))
    lost = trace.lost_kernels is not None and trace.lost_kernels.matters
    if summed_s is None or (is_limited_by_cpu(trace) and not lost):
        return None
    summed = format_bounded(units.format_seconds(summed_s), AT_LEAST if lost else "up to")
    return Tile(title, Cell(_format_less(summed, summed_s), detail=f"sum over kernels{known}"))


def compute_saving_s(trace: RankTrace) -> float | None:
    """Seconds per step above the roofs, of kernels (on a CPU: ops) with a known cost; None where none has one.

    Kernels of several streams may overlap, so that this is an upper bound, and never more than the step.
    """
    if trace.ceilings is None or not trace.ceilings.ceilings:
        return None
    rows = [row for row in trace.kernels or trace.ops if row.phase != OUTSIDE]
    gains = [gain for row in rows if (gain := compute_gain_s(row)) is not None]
    return min(sum(gains), trace.step_s) if gains else None


def get_simulated_roofs_s(trace: RankTrace) -> float | None:
    """The simulated gain of all work at its roof, in seconds per step; None where it was not simulated."""
    replayed, gains = trace.replay, trace.gains
    if replayed is None or replayed.reason or gains is None or gains.reason:
        return None
    return gains.roofs_s
