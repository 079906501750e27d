"""The critical path in recorded time: from when to when it runs on which thread or stream."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.replay import ATTENTION, BEFORE, GAPS, GEMM, HOST, LAUNCH, OTHER_KERNELS, WAITS
from perfkit.analysis.model.time_split import COMMUNICATION, COPIES
from perfkit.analysis.replay.critical_path import OF_EDGE
from perfkit.analysis.replay.edges import Edge
from perfkit.analysis.replay.replay import Replayed
from perfkit.trace.read import NONE, Ints

# The number of a kind is its place here.
KINDS = (HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS, COMMUNICATION, COPIES, WAITS, GAPS, BEFORE)
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}
_OF_EDGE = np.asarray([_NUMBER[OF_EDGE[edge]] for edge in Edge], np.int8)


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
        """Where the path is in a kernel, copy or fill that runs."""
        working = [_NUMBER[kind] for kind in (GEMM, ATTENTION, OTHER_KERNELS, COMMUNICATION, COPIES)]
        running: NDArray[np.bool_] = np.isin(self.kind, working) & (self.kernel != NONE)
        return running


def path_spans(replayed: Replayed) -> PathSpans:
    """The path of the unmodified replay, where its nodes were recorded."""
    graph, path = replayed.graph, replayed.path
    table, first = graph.edges, graph.first_kernel
    source, target = table.source[path.edges], table.target[path.edges]
    kind, carries = table.kind[path.edges], table.carries[path.edges]
    at, runs_for = graph.at_ns, graph.duration_ns
    from_kernel = np.where(carries, runs_for[source], 0)
    on_host = target < first
    thread = np.where(on_host, np.append(graph.points.thread, NONE)[np.where(on_host, target - 1, NONE)], NONE)
    of_edges = (at[source] + from_kernel, at[target], _OF_EDGE[kind], thread, np.where(on_host, NONE, target - first))
    ran = np.append(source[carries], path.last) if path.last >= first else source[carries]
    kinds = replayed.work.kinds if replayed.work.on_device else np.empty(0, object)
    of_kernel = np.asarray([_NUMBER[name] for name in kinds[ran - first].tolist()], np.int8)
    of_kernels = (at[ran], at[ran] + runs_for[ran], of_kernel, np.full(len(ran), NONE), ran - first)
    # In the order of the path: a kernel runs before the edge that carries it.
    place = np.concatenate([2 * np.arange(len(source)) + 1, 2 * np.flatnonzero(carries), [2 * len(source)]])
    order = np.argsort(place[: len(source) + len(ran)], kind="stable")
    begin, end, of_kind, on, kernel = (
        np.concatenate([edge, run])[order] for edge, run in zip(of_edges, of_kernels, strict=True)
    )
    begin, end = _tiled(begin, end)
    some = end > begin
    return PathSpans(
        begin[some] + graph.origin_ns,
        end[some] + graph.origin_ns,
        of_kind[some],
        on[some].astype(np.int64),
        kernel[some],
    )


def _tiled(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """Each piece from where the one before it ended: some overlap by a rounded gap or by what a clock is off."""
    until = np.maximum.accumulate(end) if len(end) else end
    return np.concatenate((begin[:1], until[:-1])), until
