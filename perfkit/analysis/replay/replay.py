"""A recording replayed: how well that reproduces it, what its critical path is, and what a change would gain."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.replay import HOST, Replay, Simulated
from perfkit.analysis.replay.change import WhatIf, parse
from perfkit.analysis.replay.critical_path import CriticalPath, critical_path
from perfkit.analysis.replay.edges import Floats
from perfkit.analysis.replay.graph import Graph, graph_of
from perfkit.analysis.replay.modify import Modified, modified, unmodified
from perfkit.analysis.replay.simulate import simulate
from perfkit.analysis.replay.steps import StepNodes, step_nodes
from perfkit.analysis.replay.work import Work, work_of
from perfkit.analysis.trace.intervals import length, union
from perfkit.analysis.trace.work.windows import windows
from perfkit.trace.ops import Ops
from perfkit.trace.read import Ints

# With more of the span unexplained no figure is given.
MOST_UNEXPLAINED = 0.10
# A device that is this busy is not held up by the host.
BUSY, MOSTLY = 0.90, 0.50


@dataclass(frozen=True)
class Replayed:
    """A graph, its unmodified simulation and the critical path of that."""

    graph: Graph
    work: Work
    times: Floats
    path: CriticalPath
    result: Replay


def replay(ops: Ops) -> Replayed | None:
    """Replay a trace as it was recorded; None where no thread and no kernel tells what followed what."""
    graph = graph_of(ops, windows(ops))
    if len(graph) < 3:
        return None
    work, same = work_of(ops), unmodified(graph)
    times = simulate(graph.order, same.compute_weights(graph))
    recorded = float((graph.at_ns + graph.duration_ns).max())
    simulated = _span(graph, same.duration_ns, times)
    path = critical_path(graph, work, same, times)
    device = graph.device
    busy = length(union(device.begun, device.ended)) / recorded if recorded else 0.0
    error = simulated / recorded - 1 if recorded else 0.0
    reason = _refused(error, busy, path.seconds.get(HOST, 0.0) * 1e9 / recorded if recorded else 0.0)
    result = Replay(
        recorded_s=recorded / 1e9,
        replayed_s=simulated / 1e9,
        error=error,
        nodes=len(graph),
        busy=busy,
        refused=reason,
        critical_path=_longest_first(path.seconds),
    )
    return Replayed(graph, work, times, path, result)


def what_if(replayed: Replayed, text: str) -> Simulated:
    """What the recording would have taken with the changes that a text names: see `change.parse`."""
    graph = replayed.graph
    asked = parse(text)
    change = modified(graph, replayed.work, asked)
    times = simulate(graph.order, change.compute_weights(graph))
    span = _span(graph, change.duration_ns, times) / 1e9
    path = critical_path(graph, replayed.work, change, times)
    result = replayed.result
    gain = result.replayed_s - span
    steps = step_nodes(graph)
    step_gain = None
    if steps is not None:
        before = _steps_ns(steps, graph, graph.duration_ns, replayed.times)
        step_gain = (before - _steps_ns(steps, graph, change.duration_ns, times)) / steps.number / 1e9
    return Simulated(
        what=text,
        gain_s=None if result.refused else gain,
        share=None if result.refused else gain / result.replayed_s,
        summed_s=_summed(replayed, asked, change),
        refused=result.refused,
        critical_path=_longest_first(path.seconds),
        step_gain_s=None if result.refused else step_gain,
    )


def _longest_first(kinds: dict[str, float]) -> dict[str, float]:
    return dict(sorted(kinds.items(), key=lambda item: -item[1]))


def length_s(replayed: Replayed, steps: StepNodes | None, change: Modified | None = None) -> float:
    """From the first step to the end of all that was launched in them, with a change or as it was replayed.

    Of the whole trace where the host marks no steps, or these are not asked for.
    """
    graph = replayed.graph
    duration_ns = graph.duration_ns if change is None else change.duration_ns
    times = replayed.times if change is None else simulate(graph.order, change.compute_weights(graph))
    return (_span(graph, duration_ns, times) if steps is None else _steps_ns(steps, graph, duration_ns, times)) / 1e9


def _steps_ns(steps: StepNodes, graph: Graph, duration_ns: Floats | Ints, times: Floats) -> float:
    happens = times[graph.order.place]
    return steps.measure_length_ns(happens, happens + duration_ns)


def _span(graph: Graph, duration_ns: Floats | Ints, times: Floats) -> float:
    return float((times[graph.order.place] + duration_ns).max())


def _summed(replayed: Replayed, asked: WhatIf, change: Modified) -> float | None:
    """What the changed kernels take less, added up: the most that can be gained; None without a sum to make."""
    graph, work = replayed.graph, replayed.work
    if not work.on_device or not asked.factors or asked.host != 1 or asked.graphs or asked.fused:
        return None
    # Waits that are left out change no kernel's duration.
    return float(np.sum(graph.duration_ns - change.duration_ns)) / 1e9


def _refused(error: float, busy: float, host: float) -> str:
    if abs(error) > MOST_UNEXPLAINED:
        return f"the replay takes {error:+.0%} against the recording: more than {MOST_UNEXPLAINED:.0%} is not explained"
    if busy >= BUSY and host > MOSTLY:
        return f"the device is busy {busy:.0%} of the time, but {host:.0%} of the critical path is the host"
    return ""
