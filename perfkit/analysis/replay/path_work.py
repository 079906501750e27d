"""Work on the critical path: the op, module and program line of each piece."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.model.replay import HOST, WAITS
from perfkit.analysis.replay.path_spans import KINDS, PathSpans
from perfkit.analysis.replay.replay import ReplayResult
from perfkit.analysis.trace.idle.host_places import HostEvents, HostPlaces, ThreadSpans
from perfkit.analysis.trace.time.intervals import find_overlaps, sort_unique
from perfkit.analysis.trace.work.layers import merge_layers
from perfkit.trace.annotations import is_autograd_node
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import NONE, Category, Ints, Small
from perfkit.trace.ops.ops import Ops


@dataclass(frozen=True)
class PathWork:
    """Columns, one row per piece of the path; CPU time is cut where ops begin and end.

    `op` (that of a kernel, or the kernel's own name; on the host a range where no op runs, else a call), `call` (that
    waited) and `own` (the innermost function that is neither torch's nor of Python's library; of backward that of its
    forward) are indices of the trace's names, `module` of `modules`, in which layers are one as far as they differ by
    number. NONE where none is known.
    """

    spans: PathSpans
    op: Small
    call: Small
    module: Small
    own: Small
    modules: list[str]


def build_path_work(replayed: ReplayResult, spans: PathSpans, host: HostEvents | None = None) -> PathWork:
    """Pieces of the path of the unmodified replay, from its `path_spans` (and the trace's `HostEvents` if known)."""
    ops, work = replayed.graph.ops, replayed.work
    spans = _cut_at_ops(ops, spans)
    kernel = spans.kernel if work.on_device else np.full(len(spans), NONE)
    on_the_host = host or HostEvents(ops)
    places = _look_up_places(ops, on_the_host, spans, kernel)
    labels, classes = merge_layers([*ops.modules, *places.modules])
    of_kernel = np.append(ops.kernel_module, NONE)[kernel]
    at = np.where(places.module == NONE, NONE, places.module + len(ops.modules))
    on_host = np.where((places.op == NONE) & (places.own == NONE), places.range, places.op)
    on_host = np.where((on_host == NONE) & (places.own == NONE), places.call, on_host)
    its_op = np.append(np.where(work.op == NONE, work.name, work.op), NONE).astype(np.int32)[kernel]
    forward = _find_forward_frames(ops, on_the_host, np.append(work.owner, NONE)[kernel])
    return PathWork(
        spans=spans,
        op=np.where(kernel == NONE, on_host, its_op),
        call=np.where(spans.kind == KINDS.index(WAITS), places.call, np.int32(NONE)),
        module=np.append(classes, np.int32(NONE))[np.where(of_kernel == NONE, at, of_kernel)],
        own=np.where(places.own == NONE, forward, places.own),
        modules=labels,
    )


def _look_up_places(ops: Ops, host: HostEvents, spans: PathSpans, kernel: Ints) -> HostPlaces:
    """The CPU place of each piece, or of its launch; NONE without one."""
    launch = np.append(ops.kernels.launch, NONE)[kernel]
    places = host.find_places(_locate_pieces(ops, spans, launch))
    nowhere = (spans.thread == NONE) & (launch == NONE)
    for column in places.columns.values():
        column[nowhere] = NONE
    return places


def _cut_at_ops(ops: Ops, spans: PathSpans) -> PathSpans:
    """CPU time cut where the outermost ops begin and end, ignoring autograd nodes; on a thread without ops, such as one
    that launches what others queue, where calls do."""
    trace = ops.trace
    node = mark_named(trace, ops.event, is_autograd_node)
    outermost = ~node & ((ops.parent == NONE) | np.append(node, True)[ops.parent])
    event, calls = ops.event[outermost], trace.select_events(Category.LAUNCH)
    host = spans.kind == KINDS.index(HOST)
    pieces = [np.column_stack((spans.begin_ns, spans.end_ns))[~host]]
    rows = [np.flatnonzero(~host)]
    for thread in np.unique(spans.thread[host]).tolist():
        mine = np.flatnonzero(host & (spans.thread == thread))
        its = event[trace.thread[event] == thread]
        its = its if len(its) else calls[trace.thread[calls] == thread]
        edges = sort_unique(np.concatenate((trace.start_ns[its], trace.end_ns[its])))
        limits = np.concatenate(([np.iinfo(np.int64).min], edges, [np.iinfo(np.int64).max]))
        within = np.column_stack((spans.begin_ns[mine], spans.end_ns[mine]))
        cut, row, _ = find_overlaps(within, limits[:-1], limits[1:])
        pieces.append(cut)
        rows.append(mine[row])
    together, row = np.concatenate(pieces), np.concatenate(rows)
    order = np.argsort(together[:, 0], kind="stable")
    together, row = together[order], row[order]
    return PathSpans(together[:, 0], together[:, 1], spans.kind[row], spans.thread[row], spans.kernel[row])


def _locate_pieces(ops: Ops, spans: PathSpans, launch: Small) -> ThreadSpans:
    """Where on the CPU to look up each piece (a kernel's launch)."""
    trace, on_host = ops.trace, spans.thread != NONE
    return ThreadSpans(
        np.where(on_host, spans.thread, trace.thread[launch]),
        np.where(on_host, spans.begin_ns, trace.start_ns[launch]),
        np.where(on_host, spans.end_ns, trace.end_ns[launch]),
    )


def _find_forward_frames(ops: Ops, host: HostEvents, owner: Ints) -> Small:
    """For rows of ops, the function around the forward op whose gradient they compute."""
    forward = np.append(ops.forward, NONE)[owner]
    asked = np.unique(forward[forward != NONE])
    event = ops.event[asked]
    trace = ops.trace
    stretches = ThreadSpans(trace.thread[event].astype(np.int64), trace.start_ns[event], trace.end_ns[event])
    lines = np.full(len(ops) + 1, NONE, np.int32)
    lines[asked] = host.find_own_frames(stretches)
    frames: Small = lines[forward]
    return frames
