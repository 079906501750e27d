"""Captured graphs: the launches of each capture, with their ops.

Assumed: a capture begins and ends on one thread (torch and the servers do), and what its process launched in between
and no kernel of the trace answered became a node of the graph, in this order.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import accumulate
from operator import mul
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from perfkit.devices.device_calls import is_capture_begin, is_capture_end, is_copy_call, is_fill_call, is_kernel_launch
from perfkit.trace.event_names import map_names, mark_named
from perfkit.trace.event_nesting import find_around_times, find_parents
from perfkit.trace.graphs.node_tokens import NodeToken, extract_grid_and_block
from perfkit.trace.match_ids import map_processes
from perfkit.trace.model import NONE, Category, Flows, Ints, MemoryEvents, Signature, Small, SyncRecords, Trace
from perfkit.trace.ops.kernels import Kernels, link_kernels
from perfkit.trace.ops.module_calls import find_modules

# The name of vLLM's range around a capture, and of SGLang's file of one, with its number of tokens or sequences.
_RANGE = re.compile(r"(?:\w+_)?capture_(\d{1,9})_\w+")
_FILE = re.compile(r"(?:^|_)bs_(\d{1,9})(?:_|\.|$)")
# A name of a layer among the arguments makes no two calls different.
_NAME = re.compile(rb'"(?!(?:True|False|None|inf|nan)")[^"]*[A-Za-z_][^"]*"')

Content = tuple[tuple[str, bytes, bytes, bytes, bytes], ...]


@dataclass(frozen=True)
class CapturedGraph:
    """One graph as it was captured.

    Attributes:
        label: the file, and which of its captures.
        size: the tokens or sequences that it was captured for, NONE where neither range nor file tells.
        event, parent: its ops in the order of time (events of `trace`), and the row of the op around each.
        module: of each op the index into `modules`, NONE where none is known.
        tokens: its nodes in order, `op` the row of the innermost op around the launch of each (NONE outside of all).
    """

    trace: Trace
    label: str
    size: int
    event: Ints
    parent: Ints
    module: Ints
    modules: list[str]
    tokens: tuple[NodeToken, ...]
    op: Ints

    @cached_property
    def content(self) -> tuple[Content, ...]:
        """For each node, the calls from its op outward: names, shapes and dtypes."""
        known: dict[int, Content] = {NONE: ()}
        for row in range(len(self.event)):
            known[row] = (_get_call_key(self.trace, int(self.event[row])), *known[int(self.parent[row])])
        return tuple(known[row] for row in self.op.tolist())

    @cached_property
    def dims(self) -> tuple[frozenset[int], ...]:
        """For each node, the dimensions of its op's inputs, and the number of rows of their leading dimensions."""
        known: dict[int, frozenset[int]] = {NONE: frozenset()}
        for row in np.unique(self.op).tolist():
            if row != NONE:
                signature = int(self.trace.signature[self.event[row]])
                text = b"" if signature == NONE else self.trace.signatures[signature].dims
                known[row] = frozenset(_parse_sizes(text))
        return tuple(known[row] for row in self.op.tolist())


def find_captured_graphs(trace: Trace) -> list[CapturedGraph]:
    """The graphs whose captures a trace holds, in the order of time; none where it recorded none."""
    calls = trace.select_events(Category.LAUNCH)
    spans = _find_capture_spans(trace, calls)
    if not spans:
        return []
    event = trace.select_events(Category.OP)
    parent = find_parents(trace, event)
    kernels = link_kernels(trace, event, parent)
    modules = find_modules(trace)
    process = map_processes(trace)
    starts = trace.start_ns[event]
    nodes = _select_node_calls(trace, calls[~np.isin(calls, kernels.launch)])
    inside = [_select_calls_within(trace, nodes, process, span) for span in spans]
    eager = _find_eager_kernels(trace, kernels)
    sizes = _find_sizes(trace, [span[0] for span in spans])
    name = PurePosixPath(trace.source.replace("\\", "/")).name
    of_each = []
    for span in spans:
        rows = np.arange(*np.searchsorted(starts, (trace.end_ns[span[0]], trace.start_ns[span[1]] + 1)))
        of_each.append(rows[process[trace.thread[event[rows]]] == process[trace.thread[span[0]]]])
    kept = np.unique(np.concatenate(of_each))
    alone = _select_events(trace, event[kept])
    result = []
    for number, (rows, mine, size) in enumerate(zip(of_each, inside, sizes, strict=True), start=1):
        events, around = event[rows], _renumber_parents(parent[rows], rows)
        op = find_around_times(trace, events, trace.thread[mine], trace.start_ns[mine], around)
        result.append(
            CapturedGraph(
                trace=alone,
                label=f"{name}, capture {number} of {len(spans)}" if len(spans) > 1 else name,
                size=size,
                event=np.searchsorted(kept, rows),
                parent=around,
                module=modules.locate_modules(trace, trace.thread[events], trace.start_ns[events]),
                modules=modules.paths,
                tokens=tuple(_build_tokens(trace, mine, events, op, eager)),
                op=op,
            )
        )
    return result


def _select_events(trace: Trace, events: Ints) -> Trace:
    """A trace of some events alone: captures of many batches are held at once, and may have Python's frames besides."""
    columns: dict[str, Any] = {
        column.name: values[events]
        for column in fields(trace)
        if isinstance(values := getattr(trace, column.name), np.ndarray)
    }
    flows = Flows(**{column.name: getattr(trace.flows, column.name)[:0] for column in fields(trace.flows)})
    memory = MemoryEvents(**{column.name: getattr(trace.memory, column.name)[:0] for column in fields(trace.memory)})
    syncs = SyncRecords(**{column.name: getattr(trace.syncs, column.name)[:0] for column in fields(trace.syncs)})
    return replace(trace, flows=flows, memory=memory, syncs=syncs, **columns)


def _find_capture_spans(trace: Trace, calls: Ints) -> list[tuple[int, int]]:
    """The calls that begin and end each capture."""
    begins, ends = calls[mark_named(trace, calls, is_capture_begin)], calls[mark_named(trace, calls, is_capture_end)]
    open_on: dict[int, int] = {}
    spans = []
    for call in np.sort(np.concatenate((begins, ends))).tolist():
        thread = int(trace.thread[call])
        if is_capture_begin(trace.names[int(trace.name[call])]):
            open_on[thread] = call
        elif thread in open_on:
            spans.append((open_on.pop(thread), call))
    return sorted(spans)


def _select_node_calls(trace: Trace, calls: Ints) -> Ints:
    """The calls that make nodes: launches, non-empty copies and fills, and no nested calls."""
    calls = calls[
        mark_named(trace, calls, lambda name: is_kernel_launch(name) or is_copy_call(name) or is_fill_call(name))
    ]
    outer: Ints = calls[find_parents(trace, calls) == NONE]
    nodes: Ints = outer[trace.moved_bytes[outer] != 0]
    return nodes


def _select_calls_within(trace: Trace, calls: Ints, process: Small, span: tuple[int, int]) -> Ints:
    first, last = np.searchsorted(trace.start_ns[calls], (trace.end_ns[span[0]], trace.start_ns[span[1]] + 1))
    within = calls[first:last]
    mine: Ints = within[process[trace.thread[within]] == process[trace.thread[span[0]]]]
    return mine


def _parse_sizes(dims: bytes) -> Iterator[int]:
    """The lists of sizes in a signature, `[[8,4,64],[64]]`, with the products from the first one on."""
    for row in re.findall(rb"\[([\d,\s]+)\]", dims):
        sizes = [int(size) for size in row.split(b",") if size.strip()]
        yield from sizes
        yield from accumulate(sizes, mul)


def _renumber_parents(parent: Ints, rows: Ints) -> Ints:
    """Parents as positions in `rows`, NONE for those outside."""
    if not len(rows):
        return parent
    at = np.minimum(np.searchsorted(rows, parent), len(rows) - 1)
    return np.where(rows[at] == parent, at, NONE)


def _find_sizes(trace: Trace, begins: Iterable[int]) -> list[int]:
    begins = np.asarray(list(begins), np.int64)
    ranges, sizes = map_names(trace, trace.select_events(Category.RANGE), _parse_range_size)
    around = find_around_times(trace, ranges, trace.thread[begins], trace.start_ns[begins])
    match = _FILE.search(PurePosixPath(trace.source.replace("\\", "/")).name)
    of_file = NONE if match is None else int(match[1])
    return [of_file if at == NONE else sizes[int(trace.name[ranges[at]])] for at in around.tolist()]


def _parse_range_size(name: str) -> int | None:
    match = _RANGE.fullmatch(name)
    return None if match is None else int(match[1])


def _get_call_key(trace: Trace, event: int) -> tuple[str, bytes, bytes, bytes, bytes]:
    number = int(trace.signature[event])
    signature = Signature(b"", b"", b"", b"") if number == NONE else trace.signatures[number]
    name = trace.names[int(trace.name[event])]
    return name, signature.dims, signature.strides, signature.types, _NAME.sub(b'""', signature.concrete)


# For an op, its kernels as it launched them whenever it ran eagerly.
Eager = dict[tuple[str, bytes, bytes, bytes, bytes], tuple[tuple[str, bytes], ...] | None]


def _find_eager_kernels(trace: Trace, kernels: Kernels) -> Eager:
    """The kernels of ops that ran eagerly in the same trace, None where calls alike launched different ones."""
    linked = np.flatnonzero((kernels.op != NONE) & (trace.category[kernels.event] == Category.KERNEL))
    linked = linked[np.lexsort((kernels.launch[linked], kernels.op[linked]))]
    launched: dict[int, list[tuple[str, bytes]]] = defaultdict(list)
    for row in linked.tolist():
        event = int(kernels.event[row])
        launched[int(kernels.op[row])].append((trace.names[int(trace.name[event])], _get_geometry(trace, event)))
    eager: Eager = {}
    for op, names in launched.items():
        call = _get_call_key(trace, op)
        its = tuple(names)
        eager[call] = its if eager.get(call, its) == its else None
    return eager


def _get_geometry(trace: Trace, event: int) -> bytes:
    number = int(trace.geometry[event])
    return b"" if number == NONE else extract_grid_and_block(trace.geometries[number])


def _build_tokens(trace: Trace, calls: Ints, events: Ints, op: Ints, eager: Eager) -> Iterable[NodeToken]:
    """The nodes that some calls made; the innermost ops around these are rows of `events`."""
    kernels_of: dict[int, int] = defaultdict(int)
    kinds = [_classify_call(trace.names[int(trace.name[call])]) for call in calls.tolist()]
    for kind, row in zip(kinds, op.tolist(), strict=True):
        kernels_of[row] += kind == Category.KERNEL
    seen: dict[int, int] = defaultdict(int)
    for call, kind, row in zip(calls.tolist(), kinds, op.tolist(), strict=True):
        stated = int(trace.stated[call])
        kernel = "" if stated == NONE else trace.statements[stated].kernel
        geometry = _get_geometry(trace, call)
        name = "" if row == NONE else trace.names[int(trace.name[events[row]])]
        recalled = kind == Category.KERNEL and not kernel and row != NONE
        if recalled:
            known = eager.get(_get_call_key(trace, int(events[row])))
            if known is not None and len(known) == kernels_of[row]:
                kernel, geometry = known[seen[row]]
            seen[row] += 1
        yield NodeToken(kind, kernel, geometry if kernel else b"", name, recalled and bool(kernel))


def _classify_call(call: str) -> Category:
    return Category.COPY if is_copy_call(call) else Category.FILL if is_fill_call(call) else Category.KERNEL
