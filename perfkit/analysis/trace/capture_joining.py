"""The kernels of replayed graphs with the ops of their captures, which traces of their own hold.

What joins them is an experiment, imported only where a capture may be.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.launches import ReplayedGraph
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.note import Note, make_note
from perfkit.core.text_blocks import ReadLimits
from perfkit.core.texts.name_lists import list_first
from perfkit.devices.device_calls import is_capture_begin
from perfkit.trace.graphs.replayed_graphs import ReplayedLaunches, find_replayed_graphs
from perfkit.trace.ops.ops import Ops
from perfkit.trace.readers.capture_files import select_rank_captures
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import find_captures

if TYPE_CHECKING:
    from perfkit.experiments.graph_captures.captured_graphs import CapturedGraph

_NO_CAPTURE = "no trace of its capture (--capture)"
_SAME = "record both in one run: same model, options, versions, batch sizes and rank"


class JoinedOps(NamedTuple):
    """Ops with those of captures, the graphs that the trace replayed, and remarks."""

    ops: Ops
    graphs: tuple[ReplayedGraph, ...]
    notes: tuple[Note, ...] = ()


def join_captures(
    ops: Ops, source: str, given: Sequence[str], limits: ReadLimits, *, must_fit: bool, workers: int = 1
) -> JoinedOps:
    """The ops of a trace, its replayed kernels joined to those of the captures that they came from.

    Captures come from the trace itself and from the `given` traces; by default from those next to it, by name.
    `workers` processes decode each. `UsageError` if the given traces contain no captures or, with `must_fit`, fit none
    of its graphs; unreadable adjacent traces are skipped with a note.
    """
    graphs = find_replayed_graphs(ops.trace, ops.kernels)
    if not graphs:
        note = f"no kernels of replayed graphs recorded: {given[0]} is not used" if given else ""
        return JoinedOps(ops, (), (make_note("capture.not_used", note),) if note else ())
    adjacent = () if given else find_captures(source)
    sources = select_rank_captures(given or adjacent, ops.trace.rank)
    notes = list(_list_notes(adjacent, sources))
    unjoined = [_build_graph_row(ops, replayed, reason=_NO_CAPTURE) for replayed in graphs]
    if not sources and not any(map(is_capture_begin, ops.trace.names)):
        return JoinedOps(ops, _merge_graph_rows(unjoined))
    from perfkit.experiments.graph_captures.captured_graphs import find_captured_graphs
    from perfkit.experiments.graph_captures.choose_captures import choose_captures
    from perfkit.experiments.graph_captures.join_captures import join_captured_ops

    captures = find_captured_graphs(ops.trace)
    for path in sources:
        try:
            captures += find_captured_graphs(read_trace(path, limits=limits, workers=workers, allocations=False))
        except RunFormatError as error:
            if given:
                raise
            notes.append(make_note("capture.skipped", f"skipped: {error}", error_id=error.id))
    if given and not captures:
        raise UsageError(
            f"{given[0]}: contains no graph capture (no launches between cudaStreamBeginCapture and "
            "cudaStreamEndCapture); record it while the server captures, with shapes"
        )
    if not captures:
        return JoinedOps(ops, _merge_graph_rows(unjoined), tuple(notes))
    choices = choose_captures(graphs, captures)
    if given and must_fit and not any(choice.captures for choice in choices):
        named = given[0] if len(given) == 1 else f"{given[0]} (one of {len(given)})"
        raise UsageError(f"{named} does not match {source}: {choices[0].reason}; {_SAME}")
    joined = [
        _build_graph_row(
            ops,
            choice.replayed,
            joined_nodes=0 if choice.alignment is None else choice.alignment.joined,
            capture=_describe_captures(choice.captures),
            basis=choice.basis,
            reason=choice.reason,
        )
        for choice in choices
    ]
    return JoinedOps(join_captured_ops(ops, choices), _merge_graph_rows(joined), tuple(notes))


def _merge_graph_rows(every: Sequence[ReplayedGraph]) -> tuple[ReplayedGraph, ...]:
    """Merge the rows of graphs with one capture or one unknown reason; those of most time first."""
    rows: dict[tuple[int, int, str, str, str], ReplayedGraph] = {}
    for row in every:
        key = (row.nodes, row.joined_nodes, row.capture, row.basis, row.reason)
        known = rows.get(key)
        more = (
            {}
            if known is None
            else {
                "launches": row.launches + known.launches,
                "seconds": row.seconds + known.seconds,
            }
        )
        rows[key] = replace(row, **more)
    return tuple(sorted(rows.values(), key=lambda row: -row.seconds))


def _build_graph_row(
    ops: Ops,
    replayed: ReplayedLaunches,
    *,
    joined_nodes: int = 0,
    capture: str = "",
    basis: str = "",
    reason: str = "",
) -> ReplayedGraph:
    events = ops.kernels.event[replayed.rows.ravel()]
    busy_ns = int((ops.trace.end_ns[events] - ops.trace.start_ns[events]).sum())
    launches, nodes = replayed.rows.shape
    return ReplayedGraph(
        nodes=nodes,
        launches=launches,
        seconds=busy_ns / 1e9,
        joined_nodes=joined_nodes,
        capture=capture,
        basis=basis,
        reason=reason,
    )


def _describe_captures(captures: "Sequence[CapturedGraph]") -> str:
    if not captures:
        return ""
    others = f" or {len(captures) - 1} alike" if len(captures) > 1 else ""
    return f"{captures[0].label}{others}"


def _list_notes(adjacent: Sequence[str], sources: Sequence[str]) -> tuple[Note, ...]:
    if not adjacent:
        return ()
    text = f"graph captures found next to the trace: {list_first(sources, 1)}"
    return (make_note("capture.found", text, files=len(sources)),)
