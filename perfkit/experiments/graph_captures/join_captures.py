"""Joins the ops of captures to replayed kernels: adds rows for each replay to `Ops`.

A replay calls no op, so the rows that it gets have no time: their events lie at the end of the trace, last no time and
are of no category that any time is counted of. All that is told of them is what they are: name, inputs, cost, module
and the kernels that the graph launched for them, which lie where they ran.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from perfkit.experiments.graph_captures.captured_graphs import CapturedGraph
from perfkit.experiments.graph_captures.choose_captures import CaptureChoice
from perfkit.trace.compact_ints import Compact, compact_ints
from perfkit.trace.model import NONE, Category, Ints, Trace
from perfkit.trace.ops.cost_ops import CostedCall, cost_ops
from perfkit.trace.ops.kernels import KernelLink
from perfkit.trace.ops.ops import Ops

T = TypeVar("T")

# Columns of a trace that replayed ops leave empty.
_NOTHING = ("correlation", "external_id", "device", "stream", "geometry", "sequence", "moved_bytes", "stated", "node")


class _CaptureTemplate(NamedTuple):
    """The ops of a capture that launched kernels, and those around them, with the costs they have there.

    `parent` and `owner` are rows here, `node` is for each node of the replay its row, NONE where it has none.
    """

    captured: CapturedGraph
    event: Ints
    parent: Ints
    owner: Ints
    call: Ints
    role: NDArray[np.int8]
    module: Ints
    calls: list[CostedCall]
    node: Ints


def join_captured_ops(ops: Ops, choices: Sequence[CaptureChoice]) -> Ops:
    """The ops of a trace with those of the captures that its graphs came from."""
    growth = _OpsBuilder(ops)
    groups: dict[tuple[int, ...], list[CaptureChoice]] = {}  # steps of different batches replay one graph
    for choice in choices:
        if choice.captures:
            captures = (id(captured) for captured in choice.captures)
            groups.setdefault((*captures, id(choice.alignment)), []).append(choice)
    for same in groups.values():
        growth.add(_build_template(same[0]), np.concatenate([choice.replayed.rows for choice in same]))
    return growth.build_ops()


def _build_template(choice: CaptureChoice) -> _CaptureTemplate:
    captured, alignment = choice.captures[0], choice.alignment
    assert alignment is not None
    node = np.where(alignment.node == NONE, NONE, captured.op[alignment.node])
    launched = node != NONE
    names = [token.kernel for token in choice.replayed.tokens]
    its_trace = replace(captured.trace, names=[*captured.trace.names, *names])
    name = len(captured.trace.names) + np.flatnonzero(launched)
    costs = cost_ops(its_trace, captured.event, captured.parent, node[launched], name.astype(np.int32))
    kept = np.zeros(len(captured.event), np.bool_)
    around = np.unique(node[launched])
    while len(around):
        kept[around] = True
        around = np.unique(captured.parent[around])
        around = around[around != NONE]
        around = around[~kept[around]]
    rows = np.flatnonzero(kept)
    place = np.append(np.where(kept, np.cumsum(kept) - 1, NONE), NONE)  # NONE (-1) takes the last entry
    one_module = all(
        other is captured or (other.modules == captured.modules and np.array_equal(other.module, captured.module))
        for other in choice.captures
    )
    return _CaptureTemplate(
        captured=captured,
        event=captured.event[rows],
        parent=place[captured.parent[rows]],
        owner=place[costs.owner[rows]],
        call=costs.call[rows],
        role=costs.role[rows],
        module=captured.module[rows] if one_module else np.full(len(rows), NONE, np.int64),
        calls=costs.calls,
        node=place[node],
    )


class _OpsBuilder:
    """Rows that are added to the ops of a trace."""

    def __init__(self, ops: Ops) -> None:
        self._ops = ops
        trace = ops.trace
        self._names = _MergedTable(trace.names)
        self._signatures = _MergedTable(trace.signatures)
        self._collectives = _MergedTable(trace.collectives)
        self._modules = _MergedTable(ops.modules)
        self._calls = list(ops.calls)
        self._events: dict[str, list[Ints]] = {"name": [], "signature": [], "collective": [], "thread": []}
        self._rows: dict[str, list[Ints]] = {
            name: [] for name in ("parent", "owner", "call", "role", "module", "step", "phase")
        }
        self._count = 0
        self._kernel_op = ops.kernel_op.astype(np.int64)
        self._kernel_owner = ops.kernel_owner.astype(np.int64)
        self._kernel_module = ops.kernel_module.astype(np.int64)
        self._link = ops.kernels.link.copy()

    def add(self, template: _CaptureTemplate, kernels: Ints) -> None:
        """Add the ops of a capture for each launch; `kernels` has a row per launch, a column per node."""
        trace, ops, launches = self._ops.trace, self._ops, len(kernels)
        source, event, count = template.captured.trace, template.event, len(template.event)
        first = len(ops) + self._count
        begin = first + count * np.arange(launches)[:, None]

        def of_each(rows: Ints) -> Ints:
            return np.where(rows == NONE, NONE, rows + begin).ravel()

        def repeated(values: Compact) -> Ints:
            return np.tile(values.astype(np.int64), launches)

        names = self._names.translate_numbers(source.names, source.name[event])
        self._events["name"].append(repeated(names))
        self._events["signature"].append(
            repeated(self._signatures.translate_numbers(source.signatures, source.signature[event]))
        )
        self._events["collective"].append(
            repeated(self._collectives.translate_numbers(source.collectives, source.collective[event]))
        )
        asked_by = ops.kernels.launch[kernels[:, 0]]
        asked_by = np.where(asked_by == NONE, ops.kernels.event[kernels[:, 0]], asked_by)
        self._events["thread"].append(np.repeat(trace.thread[asked_by], count))
        modules = self._modules.translate_numbers(template.captured.modules, template.module)
        self._rows["parent"].append(of_each(template.parent))
        self._rows["owner"].append(of_each(template.owner))
        call = np.where(template.call == NONE, NONE, template.call + len(self._calls))
        self._calls += template.calls
        self._rows["call"].append(repeated(call))
        self._rows["role"].append(repeated(template.role))
        self._rows["module"].append(repeated(modules))
        self._rows["step"].append(np.repeat(ops.kernel_step[kernels[:, 0]], count))
        self._rows["phase"].append(np.repeat(ops.kernel_phase[kernels[:, 0]], count))
        self._count += count * launches
        has = template.node != NONE
        which = kernels[:, has]
        node = template.node[has]
        owner = np.where(template.owner[node] == NONE, node, template.owner[node])
        self._kernel_op[which] = node + begin
        self._kernel_owner[which] = owner + begin
        known = modules[node] != NONE
        self._kernel_module[which[:, known]] = modules[node][known]
        self._link[which] = KernelLink.CAPTURE

    def build_ops(self) -> Ops:
        """The grown ops; the same where nothing was added."""
        ops = self._ops
        if not self._count:
            return ops
        trace = self._build_trace()
        event = np.append(ops.event, np.arange(len(ops.trace), len(trace)))
        rows = {name: np.concatenate(parts) for name, parts in self._rows.items()}
        nothing = np.full(self._count, NONE, np.int64)
        kernel_op = compact_ints(self._kernel_op)

        def grown(column: Compact, added: Ints) -> Compact:
            return compact_ints(np.append(column, added))

        return replace(
            ops,
            trace=trace,
            event=compact_ints(event),
            parent=grown(ops.parent, rows["parent"]),
            owner=grown(ops.owner, rows["owner"]),
            role=np.append(ops.role, rows["role"]).astype(np.int8),
            call=grown(ops.call, rows["call"]),
            calls=self._calls,
            step=grown(ops.step, rows["step"]),
            phase=grown(ops.phase, rows["phase"]),
            module=grown(ops.module, rows["module"]),
            modules=self._modules.table,
            forward=grown(ops.forward, nothing),
            recomputed=np.append(ops.recomputed, np.zeros(self._count, np.bool_)),
            self_ns=np.append(ops.self_ns, np.zeros(self._count, np.int64)),
            kernels=replace(
                ops.kernels,
                op=compact_ints(np.where(self._link == KernelLink.CAPTURE, event[self._kernel_op], ops.kernels.op)),
                link=self._link,
            ),
            kernel_op=kernel_op,
            kernel_owner=compact_ints(self._kernel_owner),
            kernel_module=compact_ints(self._kernel_module),
        )

    def _build_trace(self) -> Trace:
        trace, count = self._ops.trace, self._count
        end = int(trace.start_ns[-1])
        added: dict[str, Ints] = {name: np.concatenate(parts) for name, parts in self._events.items()}
        columns: dict[str, Any] = {}
        for name in _NOTHING:
            columns[name] = _extend_with_none(getattr(trace, name), count)
        for name, values in added.items():
            column = getattr(trace, name)
            columns[name] = np.append(column, values).astype(column.dtype)
        return replace(
            trace,
            names=self._names.table,
            signatures=self._signatures.table,
            collectives=self._collectives.table,
            category=np.append(trace.category, np.full(count, Category.OTHER, np.int8)),
            start_ns=np.append(trace.start_ns, np.full(count, end)),
            end_ns=np.append(trace.end_ns, np.full(count, end)),
            **columns,
        )


def _extend_with_none(column: Compact, count: int) -> Compact:
    if column.strides == (0,) and column[0] == NONE:  # one entry for all
        return np.broadcast_to(column[:1], (len(column) + count,))
    return np.append(column, np.full(count, NONE, column.dtype))


class _MergedTable(Generic[T]):
    """A table of a trace that takes entries of others."""

    def __init__(self, table: Sequence[T]) -> None:
        self.table = list(table)
        self._number: dict[T, int] = {entry: number for number, entry in reversed(list(enumerate(table)))}

    def translate_numbers(self, table: Sequence[T], numbers: Compact) -> Ints:
        """Translate another table's numbers; NONE stays."""
        used, inverse = np.unique(numbers, return_inverse=True)
        here = [NONE if number == NONE else self._add_entry(table[number]) for number in used.tolist()]
        return np.asarray(here, np.int64)[inverse]

    def _add_entry(self, entry: T) -> int:
        if entry not in self._number:
            self._number[entry] = len(self.table)
            self.table.append(entry)
        return self._number[entry]
