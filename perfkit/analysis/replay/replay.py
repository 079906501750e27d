"""Replays a recording: its error, critical path, and gains of changes."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.replay import HOST, ReplaySummary, SimulatedChange
from perfkit.analysis.replay.critical_path import CriticalPath, find_critical_path
from perfkit.analysis.replay.dependency_graph import DependencyGraph, build_graph
from perfkit.analysis.replay.edges import Floats
from perfkit.analysis.replay.graph_changes import ModifiedGraph, apply_what_if, copy_unmodified
from perfkit.analysis.replay.replay_work import ReplayWork, collect_work
from perfkit.analysis.replay.simulation import simulate_times
from perfkit.analysis.replay.step_nodes import StepNodes, find_step_nodes
from perfkit.analysis.replay.what_if_syntax import WhatIf, parse_what_if
from perfkit.analysis.trace.time.intervals import measure_length, merge_intervals
from perfkit.analysis.trace.time.step_windows import StepWindows, find_step_windows
from perfkit.core.units import format_percent, format_signed_percent
from perfkit.trace.model import Ints
from perfkit.trace.ops.ops import Ops

# With more of the span unexplained no figure is given.
MOST_UNEXPLAINED = 0.10
# A device this busy is not limited by the CPU.
BUSY, MOSTLY = 0.90, 0.50


@dataclass(frozen=True)
class ReplayResult:
    """A graph, its unmodified simulation and the critical path of that."""

    graph: DependencyGraph
    work: ReplayWork
    times: Floats
    path: CriticalPath
    result: ReplaySummary


def replay_trace(ops: Ops, windows: StepWindows | None = None) -> ReplayResult | None:
    """Replay a trace as recorded; None without a thread or kernel that shows the order.

    `windows` are those of its steps, if already known.
    """
    graph = build_graph(ops, find_step_windows(ops) if windows is None else windows)
    if len(graph) < 3:
        return None
    work, same = collect_work(ops), copy_unmodified(graph)
    times = simulate_times(graph.order, same.compute_weights(graph))
    recorded = float((graph.at_ns + graph.duration_ns).max())
    simulated = _measure_span(graph, same.duration_ns, times)
    path = find_critical_path(graph, work, same, times)
    device = graph.device
    busy = measure_length(merge_intervals(device.begun, device.ended)) / recorded if recorded else 0.0
    error = simulated / recorded - 1 if recorded else 0.0
    reason = _explain_refusal(error, busy, path.seconds.get(HOST, 0.0) * 1e9 / recorded if recorded else 0.0)
    result = ReplaySummary(
        recorded_s=recorded / 1e9,
        replayed_s=simulated / 1e9,
        error=error,
        nodes=len(graph),
        busy_share=busy,
        reason=reason,
        critical_path=_sort_longest_first(path.seconds),
    )
    return ReplayResult(graph, work, times, path, result)


def simulate_what_if(replayed: ReplayResult, text: str) -> SimulatedChange:
    """The length of the recording with the changes of a what-if text: see `change.parse`."""
    graph = replayed.graph
    asked = parse_what_if(text)
    change = apply_what_if(graph, replayed.work, asked)
    times = simulate_times(graph.order, change.compute_weights(graph))
    span = _measure_span(graph, change.duration_ns, times) / 1e9
    path = find_critical_path(graph, replayed.work, change, times)
    result = replayed.result
    gain = result.replayed_s - span
    steps = find_step_nodes(graph)
    step_gain = None
    if steps is not None:
        before = _measure_steps_ns(steps, graph, graph.duration_ns, replayed.times)
        step_gain = (before - _measure_steps_ns(steps, graph, change.duration_ns, times)) / steps.number / 1e9
    return SimulatedChange(
        change=text,
        gain_s=None if result.reason else gain,
        share=None if result.reason else gain / result.replayed_s,
        summed_s=_sum_kernel_gains(replayed, asked, change),
        reason=result.reason,
        critical_path=_sort_longest_first(path.seconds),
        step_gain_s=None if result.reason else step_gain,
    )


def _sort_longest_first(kinds: dict[str, float]) -> dict[str, float]:
    return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def simulate_length_s(replayed: ReplayResult, steps: StepNodes | None, change: ModifiedGraph | None = None) -> float:
    """The length from the first step to the end of all work launched in the steps, with a change or as replayed.

    Of the whole trace where the host marks no steps, or these are not asked for.
    """
    graph = replayed.graph
    if change is None:
        return _measure_length_s(graph, steps, graph.duration_ns, replayed.times)
    times = simulate_times(graph.order, change.compute_weights(graph))
    return _measure_length_s(graph, steps, change.duration_ns, times)


def simulate_length_and_path(
    replayed: ReplayResult, steps: StepNodes | None, change: ModifiedGraph
) -> tuple[float, dict[str, float]]:
    """The length as above, and the seconds by kind of the critical path, the longest first."""
    graph = replayed.graph
    times = simulate_times(graph.order, change.compute_weights(graph))
    path = find_critical_path(graph, replayed.work, change, times)
    return _measure_length_s(graph, steps, change.duration_ns, times), _sort_longest_first(path.seconds)


def _measure_length_s(
    graph: DependencyGraph, steps: StepNodes | None, duration_ns: Floats | Ints, times: Floats
) -> float:
    if steps is None:
        return _measure_span(graph, duration_ns, times) / 1e9
    return _measure_steps_ns(steps, graph, duration_ns, times) / 1e9


def _measure_steps_ns(steps: StepNodes, graph: DependencyGraph, duration_ns: Floats | Ints, times: Floats) -> float:
    happens = times[graph.order.place]
    return steps.measure_length_ns(happens, happens + duration_ns)


def _measure_span(graph: DependencyGraph, duration_ns: Floats | Ints, times: Floats) -> float:
    return float((times[graph.order.place] + duration_ns).max())


def _sum_kernel_gains(replayed: ReplayResult, asked: WhatIf, change: ModifiedGraph) -> float | None:
    """The summed time saved in changed kernels: an upper bound; None where no sum applies."""
    graph, work = replayed.graph, replayed.work
    if not work.on_device or not asked.factors or asked.host != 1 or asked.graphs or asked.fused:
        return None
    # Waits that are left out change no kernel's duration.
    return float(np.sum(graph.duration_ns - change.duration_ns)) / 1e9


def _explain_refusal(error: float, busy: float, host: float) -> str:
    if abs(error) > MOST_UNEXPLAINED:
        return f"replay error {format_signed_percent(error, 0)} exceeds {format_percent(MOST_UNEXPLAINED, 0)}"
    if busy >= BUSY and host > MOSTLY:
        return (
            f"device busy {format_percent(busy, 0)} of the time, but the critical path is {format_percent(host, 0)} CPU"
        )
    return ""
