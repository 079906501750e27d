"""The critical path in recorded time: from when to when it runs on which thread or stream."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.replay import ATTENTION, BEFORE, GAPS, GEMM, HOST, LAUNCH, OTHER_KERNELS, WAITS
from perfkit.analysis.model.time_split import COMMUNICATION, COPIES
from perfkit.analysis.replay.critical_path import OF_EDGE, interleave_pieces
from perfkit.analysis.replay.edges import EdgeKind
from perfkit.analysis.replay.replay import ReplayResult
from perfkit.analysis.trace.time.intervals import Intervals, measure_covered
from perfkit.trace.model import NONE, Ints

# The number of a kind is its place here.
KINDS = (HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS, COMMUNICATION, COPIES, WAITS, GAPS, BEFORE)
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_OF_EDGE = np.asarray([_NUMBER[OF_EDGE[edge]] for edge in EdgeKind], np.int8)


@dataclass(frozen=True)
class PathSpans:
    """Columns, one row a piece of the path, in the order of time; they tile the time from its beginning to its end.

    Attributes:
        begin_ns, end_ns: as recorded, on the clock of the trace's events.
        kind: as an index into `KINDS`.
        thread: on which the host works (an index into the trace's threads), NONE for what is on a device.
        kernel: row of the kernel (of `Ops.kernels`) that runs, that a launch or a wait leads to; NONE for the host.
    """

    begin_ns: Ints
    end_ns: Ints
    kind: NDArray[np.int8]
    thread: Ints
    kernel: Ints

    def __len__(self) -> int:
        return len(self.begin_ns)

    @property
    def runs(self) -> NDArray[np.bool_]:
        """The parts of the path in a running kernel, copy or fill."""
        working = [_NUMBER[kind] for kind in (GEMM, ATTENTION, OTHER_KERNELS, COMMUNICATION, COPIES)]
        running: NDArray[np.bool_] = np.isin(self.kind, working) & (self.kernel != NONE)
        return running


def build_path_spans(replayed: ReplayResult) -> PathSpans:
    """The path of the unmodified replay, where its nodes were recorded."""
    graph, path = replayed.graph, replayed.path
    table, first = graph.edges, graph.first_kernel
    source, target = table.source[path.edges], table.target[path.edges]
    at, on_host = graph.at_ns, target < first
    thread = np.where(on_host, np.append(graph.points.thread, NONE)[np.where(on_host, target - 1, NONE)], NONE)
    nodes = np.append(source, path.last)
    runs = np.append(table.carries[path.edges], path.last >= first)
    ran = at[nodes] + np.where(runs, graph.duration_ns[nodes], 0)
    kinds = np.zeros(len(nodes), np.int8)  # of CPU nodes, which take no time
    if replayed.work.on_device:
        kinds[runs] = [_NUMBER[name] for name in replayed.work.kinds[nodes[runs] - first].tolist()]
    # From where all before it had ended: some overlap by a rounded gap, by what a clock is off, or in truth.
    end = np.maximum.accumulate(interleave_pieces(ran, at[target]))
    begin = np.concatenate((at[nodes[:1]], end[:-1]))
    some = end > begin
    return PathSpans(
        begin[some] + graph.origin_ns,
        end[some] + graph.origin_ns,
        interleave_pieces(kinds, _OF_EDGE[table.kind[path.edges]])[some],
        interleave_pieces(np.full(len(nodes), NONE, np.int64), thread.astype(np.int64))[some],
        interleave_pieces(np.where(runs, nodes - first, NONE), np.where(on_host, NONE, target - first))[some],
    )


def sum_path_kinds(spans: PathSpans, windows: Intervals, parts: int) -> dict[str, float]:
    """The seconds of the path by kind within some windows, per one of `parts`, the longest first."""
    within_ns = measure_covered(spans.begin_ns, spans.end_ns, windows)
    sums_ns = np.bincount(spans.kind, weights=within_ns, minlength=len(KINDS))
    found = {KINDS[number]: float(sums_ns[number]) / 1e9 / parts for number in np.argsort(-sums_ns, kind="stable")}
    return {kind: seconds for kind, seconds in found.items() if seconds > 0}
