"""The longest times in which a device had nothing to do, by what the host was in."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.trace.intervals import Intervals, Ints
from perfkit.analysis.trace.work.windows import Windows
from perfkit.trace.annotations import is_autograd_node
from perfkit.trace.ops import Ops
from perfkit.trace.read import NONE, Category

# A host that launches work does so every few to some hundred microseconds. Where nothing comes for this long, it did
# something else.
LONG_NS = 1_000_000
# Of the longest gaps it is told what the host was in.
MOST_NAMED = 50

_MODULE = re.compile(r"nn\.Module: (\w+)")


_FRAME = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]+)\((?P<line>\d+)\): (?P<function>.+)")
_BUILTIN = re.compile(r"<built-in (?:function|method) (\S+?)(?: of .*)?>")


class _Place(NamedTuple):
    """What the host was in for more than half of a gap, the innermost of each; empty where nothing was recorded."""

    frame: str = ""
    builtin: str = ""
    module: str = ""
    range: str = ""
    op: str = ""
    call: str = ""
    following: str = ""


def gap_rows(ops: Ops, windows: Windows, gaps: Intervals) -> tuple[GapRow, ...]:
    """Gaps of one place together, those that last longest first; the shorter ones of very many together in one row.

    Args:
        gaps: long ones, within the windows.
    """
    parts, start = max(len(windows), 1), windows.span[0]
    order = np.argsort(gaps[:, 0] - gaps[:, 1], kind="stable")
    together: dict[_Place, list[int]] = {}
    for place, index in zip(_places(ops, gaps[order[:MOST_NAMED]]), order.tolist(), strict=False):
        together.setdefault(place, []).append(index)
    rows = [_row(place, gaps[members], parts, start) for place, members in together.items()]
    if len(order) > MOST_NAMED:
        rows.append(_row(_Place(), gaps[order[MOST_NAMED:]], parts, start, named=False))
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def place(row: GapRow) -> str:
    """What the host was in, the innermost first: `sleep in preprocess (data.py:31)`; empty where nothing tells."""
    frame, builtin = _FRAME.fullmatch(row.frame), _BUILTIN.fullmatch(row.builtin)
    parts = (
        row.call,
        row.op,
        row.builtin if builtin is None else builtin[1],
        row.frame if frame is None else f"{frame['function']} ({frame['file']}:{frame['line']})",
        row.module and f"module {row.module}",
        row.range and f"the range {row.range}",
    )
    return " in ".join(part for part in parts if part)


def _row(place: _Place, gaps: Intervals, parts: int, start: int, *, named: bool = True) -> GapRow:
    lengths = gaps[:, 1] - gaps[:, 0]
    return GapRow(
        **place._asdict(),
        gaps=len(gaps) / parts,
        seconds=int(lengths.sum()) / 1e9 / parts,
        longest_s=int(lengths.max()) / 1e9,
        longest_start_s=int(gaps[int(lengths.argmax()), 0] - start) / 1e9,
        named=named,
    )


def _places(ops: Ops, gaps: Intervals) -> Iterator[_Place]:
    trace, kernels = ops.trace, ops.kernels
    begun = trace.start_ns[kernels.event]
    busiest = int(np.bincount(trace.thread[ops.event]).argmax()) if len(ops) else NONE
    for start, end in gaps.tolist():
        after = int(np.searchsorted(begun, end))
        launched = after < len(begun) and int(kernels.launch[after]) != NONE
        # What the host did on the thread that launched what came next.
        thread = int(trace.thread[kernels.launch[after]]) if launched else busiest
        place = _in(ops, thread, start, end)
        op = int(kernels.op[after]) if after < len(begun) else NONE
        yield place._replace(following="" if op == NONE else trace.names[int(trace.name[op])])


def _in(ops: Ops, thread: int, start: int, end: int) -> _Place:
    """The innermost of what covers more than half of the time on a thread: all of these lie within each other."""
    trace, half = ops.trace, (end - start) // 2
    upto = int(np.searchsorted(trace.start_ns, end - half))
    around = np.flatnonzero((trace.end_ns[:upto] > start + half) & (trace.thread[:upto] == thread))
    overlap = np.minimum(trace.end_ns[around], end) - np.maximum(trace.start_ns[around], start)
    around = around[overlap > half]
    name = [trace.names[index] for index in trace.name[around].tolist()]
    category = trace.category[around].tolist()
    steps = _step_events(ops, around)
    place: dict[str, str] = {}
    for label, of, is_step in zip(name, category, steps, strict=True):
        kind = _KINDS.get(of)
        if kind is None or is_step or (kind == "op" and is_autograd_node(label)):
            continue
        if kind == "frame":
            module = _MODULE.match(label)
            if module is not None:
                place["module"] = module[1]
                continue
            if label.startswith("<built-in"):
                place["builtin"] = label
                continue
            place.pop("builtin", None)  # it lies around this frame, which says more
        place[kind] = label
    return _Place(**place)


_KINDS = {
    int(Category.PYTHON): "frame",
    int(Category.RANGE): "range",
    int(Category.OP): "op",
    int(Category.LAUNCH): "call",
}


def _step_events(ops: Ops, events: Ints) -> list[bool]:
    """Which of some events are the marks of steps: they say nothing of where in a step something was."""
    trace, steps = ops.trace, ops.steps
    at = np.searchsorted(steps.start_ns, trace.start_ns[events])
    known = at < len(steps)
    at = np.minimum(at, max(len(steps) - 1, 0))
    if not len(steps):
        return [False] * len(events)
    is_step = known & (steps.start_ns[at] == trace.start_ns[events]) & (steps.end_ns[at] == trace.end_ns[events])
    marks: list[bool] = (is_step & (trace.category[events] == Category.RANGE)).tolist()
    return marks
