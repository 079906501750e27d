"""The work of a trace's steps: what ran when, for which call, and the groups of equal calls.

On a CPU a piece of work is an op that has a cost, or one whose work no formula models; on a GPU it is a kernel, for
the op that launched it.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from perfkit.analysis.roofline import Limit, Work, limit
from perfkit.analysis.roofs import Roofs
from perfkit.cost.call import Arg, TensorArg
from perfkit.record import PHASES
from perfkit.trace.kernels import communication
from perfkit.trace.ops import Ops, Role
from perfkit.trace.read import NONE, Category, Ints


class Kind(StrEnum):
    WORK = "work"
    COMMUNICATION = "communication"
    COPY = "copy"  # between host and device


class Piece(NamedTuple):
    """Something that ran from `start_ns` to `end_ns` and was busy `busy_ns` of it.

    `call` indexes `Ops.calls`, NONE where no formula models the work. `row` is the op it was done for, or, where that
    is not known, a negative number of its own.
    """

    name: str
    phase: str
    module: str
    kind: Kind
    call: int
    row: int
    start_ns: int
    end_ns: int
    busy_ns: int


@dataclass(frozen=True)
class Group:
    """Calls of one op with the same inputs in one phase; calls and seconds are per step, and so is `limit`."""

    name: str
    phase: str
    module: str
    kind: Kind
    shapes: str
    source: str
    calls: float
    seconds: float
    work: Work | None
    limit: Limit
    pieces: tuple[Piece, ...]


def pieces(ops: Ops) -> list[Piece]:
    """All work that was begun within the steps: kernels where devices were traced, else ops."""
    return _device_pieces(ops) if ops.trace.has_device_events else _host_pieces(ops)


def _host_pieces(ops: Ops) -> list[Piece]:
    working = np.isin(ops.role, [int(Role.COSTED), int(Role.UNMODELLED), int(Role.COMMUNICATION)])
    rows = np.flatnonzero(working & (ops.step != NONE)).tolist()
    result = []
    for row in rows:
        start, end = int(ops.start_ns[row]), int(ops.end_ns[row])
        exchanging = ops.role[row] == Role.COMMUNICATION
        busy = int(ops.self_ns[row]) if ops.role[row] == Role.UNMODELLED else end - start
        kind = Kind.COMMUNICATION if exchanging else Kind.WORK
        call = NONE if exchanging else int(ops.call[row])
        result.append(Piece(ops.name(row), _phase(ops, row), _module(ops, row), kind, call, row, start, end, busy))
    return result + _exchanges(ops)


def _exchanges(ops: Ops) -> list[Piece]:
    """What the threads of a process group did, from the beginning of a collective to its end."""
    trace = ops.trace
    events = communication(trace)
    inside = events[ops.steps.at(trace.start_ns[events]) != NONE]
    return [
        _loose(trace.names[int(trace.name[event])], Kind.COMMUNICATION, index, trace.start_ns, trace.end_ns, event)
        for index, event in enumerate(inside.tolist())
    ]


def _device_pieces(ops: Ops) -> list[Piece]:
    trace = ops.trace
    exchanging = set(communication(trace).tolist())
    result = []
    for index, (event, row) in enumerate(zip(ops.kernels.event.tolist(), ops.kernel_owner.tolist(), strict=True)):
        name = trace.names[int(trace.name[event])]
        kind = _device_kind(int(trace.category[event]), name, event in exchanging)
        if row == NONE:
            result.append(_loose(name, kind, index, trace.start_ns, trace.end_ns, event))
            continue
        if ops.step[row] == NONE:
            continue
        start, end = int(trace.start_ns[event]), int(trace.end_ns[event])
        costed = kind == Kind.WORK and ops.role[row] == Role.COSTED
        result.append(
            Piece(
                # A kernel of an op without a cost says more by its own name (compiled kernels share one op).
                name=ops.name(row) if costed or kind != Kind.WORK else name,
                phase=_phase(ops, row),
                module=_module(ops, row),
                kind=kind,
                call=int(ops.call[row]) if costed else NONE,
                row=row,
                start_ns=start,
                end_ns=end,
                busy_ns=end - start,
            )
        )
    return result


def _device_kind(category: int, name: str, exchanging: bool) -> Kind:
    if exchanging:
        return Kind.COMMUNICATION
    return Kind.COPY if category == Category.COPY and "DtoD" not in name else Kind.WORK


def _loose(name: str, kind: Kind, index: int, starts: Ints, ends: Ints, event: int) -> Piece:
    start, end = int(starts[event]), int(ends[event])
    return Piece(name, "", "", kind, NONE, -1 - index, start, end, end - start)


def _phase(ops: Ops, row: int) -> str:
    index = int(ops.phase[row])
    return "" if index == NONE else PHASES[index]


def _module(ops: Ops, row: int) -> str:
    index = int(ops.module[row])
    return "" if index == NONE else ops.trace.names[index].removeprefix("nn.Module: ")


def group(ops: Ops, work: Sequence[Piece], roofs: Roofs) -> list[Group]:
    """Equal calls together, the most expensive first."""
    steps = max(len(ops.steps), 1)
    together: dict[tuple[str, str, str, Kind, int], list[Piece]] = defaultdict(list)
    for piece in work:
        together[piece.name, piece.phase, piece.module, piece.kind, piece.call].append(piece)
    groups = [_group(ops, members, steps, roofs) for members in together.values()]
    return sorted(groups, key=lambda each: -each.seconds)


def _group(ops: Ops, members: list[Piece], steps: int, roofs: Roofs) -> Group:
    first = members[0]
    calls = len({piece.row for piece in members}) / steps
    seconds = sum(piece.busy_ns for piece in members) / steps / 1e9
    work, shapes, source = None, "", ""
    bounded = Limit(None, "unknown")
    if first.call != NONE:
        call, cost = ops.calls[first.call]
        shapes, source = show_shapes(call.args), cost.source
        work = Work(_times(cost.flops, calls), _times(cost.bytes, calls), cost.unit, cost.dtype)
        bounded = limit(work, seconds, roofs, calls)
    return Group(
        name=first.name,
        phase=first.phase,
        module=first.module,
        kind=first.kind,
        shapes=shapes,
        source=source,
        calls=calls,
        seconds=seconds,
        work=work,
        limit=bounded,
        pieces=tuple(members),
    )


def _times(value: float | None, calls: float) -> float | None:
    return None if value is None else value * calls


def show_shapes(args: Iterable[Arg]) -> str:
    """The tensors among the arguments: `fp32[32,64] fp32[64,256]`; a list of many shows its first and their number."""
    parts = []
    for value in args:
        if isinstance(value, TensorArg):
            parts.append(_show(value))
        elif isinstance(value, tuple):
            tensors = [item for item in value if isinstance(item, TensorArg)]
            if tensors:
                parts.append(_show(tensors[0]) + (f" x{len(tensors)}" if len(tensors) > 1 else ""))
    return " ".join(parts)


def _show(value: TensorArg) -> str:
    return f"{value.dtype or '?'}[{','.join(str(size) for size in value.shape)}]"
