"""Tracks that show the results of an analysis over a trace's time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.export.chrome_events import CounterTrack, Slice, Track
from perfkit.analysis.memory.category_timeline import build_category_timeline
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.idle import CAUSES
from perfkit.analysis.model.time_split import CPU_CATEGORIES, DEVICE_CATEGORIES
from perfkit.analysis.replay.path_spans import KINDS, build_path_spans
from perfkit.analysis.replay.replay import ReplayResult
from perfkit.analysis.trace.idle.idle_gaps import describe_idle_places
from perfkit.analysis.trace.time.grouping import Floats
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups, get_module
from perfkit.analysis.trace.work.roofline_rows import build_op_rows
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkItems
from perfkit.core.units import format_percent, format_seconds
from perfkit.trace.memory.trace_allocations import build_ops_allocations
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

_ROOFLINE = "% of roofline"
# A kernel that follows within this time keeps a counter from falling to zero in between.
_FOLLOWS_NS = 1_000


def build_tracks(
    ops: Ops, engine: WorkAnalysis, replayed: ReplayResult | None, findings: Sequence[Finding]
) -> Iterator[Track]:
    """Steps, findings, the critical path, causes of each device's idle time, and what bounds the work of each stream
    or thread.
    """
    if engine.windows.are_steps:
        yield Track("steps", _build_step_slices(engine))
    if findings and len(engine.windows):
        yield Track("findings", _build_finding_slices(engine, findings))
    if replayed is not None:
        yield Track("critical path", _build_path_slices(ops, replayed))
    for idle in (time.idle.time for time in engine.devices):
        if idle is None or not len(idle):
            continue
        texts = describe_idle_places(ops, idle)
        name = "device" if len(ops.devices) == 1 else ops.devices.format_device(idle.device)
        yield Track(f"{name} idle: cause", _build_idle_slices(idle.begin_ns, idle.end_ns, idle.cause, *texts))
    bounds = _make_bound_slicer(engine)
    for lane, named in enumerate(_name_lanes(engine.pieces)):
        yield Track(f"bound: {named}", bounds(lane))


def build_counter_tracks(ops: Ops, engine: WorkAnalysis) -> Iterator[CounterTrack]:
    """Build per stream or thread the share of the roofline, FLOP/s and bytes/s; memory by category."""
    shares = _compute_roofline_shares(engine.placed)
    for lane, named in enumerate(_name_lanes(engine.pieces)):
        yield CounterTrack(named, _sample_rates(engine, shares, lane))
    for allocations in build_ops_allocations(ops):
        over = build_category_timeline(allocations)
        if over is not None:
            times, categories = over
            name = f"memory of {allocations.device or 'the device'}"
            series = {category: amounts.tolist() for category, amounts in categories.items()}
            yield CounterTrack(name, _walk_series(times.tolist(), series))


def _walk_series(times: Sequence[int], series: dict[str, list[int]]) -> Iterator[tuple[int, dict[str, float]]]:
    for place, time_ns in enumerate(times):
        yield time_ns, {name: amounts[place] for name, amounts in series.items()}


def _build_step_slices(engine: WorkAnalysis) -> Iterator[Slice]:
    spans = engine.windows
    for index, (number, (begin, end)) in enumerate(zip(spans.number.tolist(), spans.spans.tolist(), strict=True)):
        shares = {
            share.category: format_percent(share.share)
            for share in engine.split.compute_shares(window=index)
            if share.seconds
        }
        yield Slice(begin, end, f"step {number}", shares)


def _build_finding_slices(engine: WorkAnalysis, findings: Sequence[Finding]) -> Iterator[Slice]:
    """One slice per finding over all steps, the largest first: findings are about a step, not a moment."""
    begin, end = int(engine.windows.spans[0, 0]), int(engine.windows.spans[-1, 1])
    for finding in findings:
        args = {"evidence": finding.evidence, "fix": finding.action}
        if finding.simulated_s is not None:
            args["simulated gain"] = f"{format_seconds(finding.simulated_s)}{' per step' if finding.per_step else ''}"
        if finding.gain_s is not None:
            args["summed gain"] = f"{finding.gain_bound} {format_seconds(finding.gain_s)}"
        yield Slice(begin, end, f"{finding.severity}: {finding.title}", {k: v for k, v in args.items() if v})


def _build_path_slices(ops: Ops, replayed: ReplayResult) -> Iterator[Slice]:
    spans, trace = build_path_spans(replayed), ops.trace
    for begin, end, kind, thread, kernel in zip(
        spans.begin_ns.tolist(), spans.end_ns.tolist(), spans.kind.tolist(), spans.thread.tolist(),
        spans.kernel.tolist(), strict=True,
    ):  # fmt: skip
        args: dict[str, Any] = {}
        if thread != NONE:
            args["thread"] = " ".join(trace.threads[thread])
        if kernel != NONE and kernel < len(ops.kernels):
            args["kernel"] = trace.names[int(trace.name[ops.kernels.event[kernel]])]
            owner = int(ops.kernel_owner[kernel])
            if owner != NONE:
                args["op"] = trace.names[int(trace.name[ops.event[owner]])]
        yield Slice(begin, end, KINDS[kind], args)


def _build_idle_slices(
    begin: Ints, end: Ints, cause: NDArray[np.int8], of: Ints, texts: Sequence[str]
) -> Iterator[Slice]:
    for start, until, number, text in zip(begin.tolist(), end.tolist(), cause.tolist(), of.tolist(), strict=True):
        yield Slice(start, until, CAUSES[number], {"where": texts[text]} if texts[text] else {})


def _name_lanes(pieces: WorkItems) -> Iterator[str]:
    several = len({device for device, _ in pieces.lanes}) > 1
    for device, name in pieces.lanes:
        lane = f"stream {name}" if pieces.on_device else f"thread {name}"
        yield f"device {device}, {lane}" if several and pieces.on_device else lane


def _make_bound_slicer(engine: WorkAnalysis) -> Callable[[int], Iterator[Slice]]:
    """A function from a lane to its slices: rows of groups are made once for all."""
    placed, work = engine.placed, engine.pieces
    of_groups = build_op_rows(placed, np.arange(len(placed)), engine.step_s, of_kernels=work.on_device)
    categories = CPU_CATEGORIES if not work.on_device else DEVICE_CATEGORIES
    share = _compute_roofline_shares(placed)

    def slices(lane: int) -> Iterator[Slice]:
        mine = np.flatnonzero(work.lane == lane)
        for piece in mine[np.lexsort((-work.end_ns[mine], work.start_ns[mine]))].tolist():
            group = int(placed.groups.of[piece])
            row, bound = of_groups[group], categories[int(engine.category[piece])]
            reached = share[piece]
            args: dict[str, Any] = {"kernel" if work.on_device else "op": row.name, "op": row.op or row.name}
            module = get_module(work, piece)
            args |= {"phase": row.phase, "module": module, "shapes": row.shapes}
            args |= {"FLOPs": _replace_nan(engine.costs.flops[piece]), "bytes": _replace_nan(engine.costs.bytes[piece])}
            if not np.isnan(reached):
                args[_ROOFLINE] = round(100 * float(reached), 1)
            name = bound if np.isnan(reached) else f"{bound} {100 * float(reached):.0f} %"
            yield Slice(
                int(work.start_ns[piece]),
                int(work.end_ns[piece]),
                name,
                {k: v for k, v in args.items() if v not in ("", None)},
            )

    return slices


def _compute_roofline_shares(placed: RooflineGroups) -> Floats:
    """Attainable over actual time of each piece's group; NaN where unknown or above the roof."""
    per_piece = placed.limits.attainable_s / np.maximum(placed.groups.count_by_group(), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        reached = per_piece[placed.groups.of] * 1e9 / placed.pieces.busy_ns
    return np.where(reached < 1, reached, np.nan)


def _replace_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _sample_rates(engine: WorkAnalysis, shares: Floats, lane: int) -> Iterator[tuple[int, dict[str, float]]]:
    """Sample the rates while a piece runs, 0 between pieces; unknown rates are left out."""
    work = engine.pieces
    mine = np.flatnonzero(work.lane == lane)
    share = shares[mine]
    start, end = work.start_ns[mine].tolist(), work.end_ns[mine].tolist()
    seconds = np.maximum(work.busy_ns[mine], 1) / 1e9
    series = (
        (_ROOFLINE, 100 * share),
        ("TFLOP/s", engine.costs.flops[mine] / seconds / 1e12),
        ("GB/s", engine.costs.bytes[mine] / seconds / 1e9),
    )
    known = [(name, values.tolist()) for name, values in series if not np.isnan(values).all()]
    if not known:
        return
    for place, begin in enumerate(start):
        yield (
            begin,
            {name: round(values[place], 3) if values[place] == values[place] else 0.0 for name, values in known},
        )
        if place + 1 == len(start) or start[place + 1] > end[place] + _FOLLOWS_NS:
            yield end[place], {name: 0.0 for name, _ in known}
