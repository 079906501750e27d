"""Simulated changes ("what if") for Python programs."""

from perfkit.analysis.model.replay import SimulatedChange
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.replay.replay import replay_trace
from perfkit.analysis.replay.replay import simulate_what_if as simulated
from perfkit.core.errors import UsageError
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace


def what_if(analysis: TraceAnalysis, *changes: str) -> tuple[SimulatedChange, ...]:
    """The gain of changes such as `gemm=0.8,comm=0` on the first trace of an analysis, which is read again.

    `UsageError` says what is wrong with a change, or that the trace holds nothing to replay.
    """
    path = analysis.traces[0].file_info.path
    ops = read_ops(read_trace(path))
    replayed = replay_trace(ops)
    if replayed is None:
        raise UsageError(f"{path}: cannot simulate: no dependencies recorded")
    return tuple(simulated(replayed, change) for change in changes)
