"""Idle time of a device in rows, by cause and CPU place."""

import re
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.idle import CAUSES, ELSEWHERE, HELD_UP, LATE, OTHER_STREAM, PEERS
from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.model.time_split import IDLE_UNKNOWN
from perfkit.analysis.trace.idle.idle_pieces import IdleTime
from perfkit.analysis.trace.time.grouping import RowGroups, group_rows
from perfkit.analysis.trace.time.step_windows import StepWindows
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops

# Most rows per cause; the shorter ones share a row.
MOST_PLACES = 50

# Causes whose rows name the next op.
_BEFORE = (ELSEWHERE, LATE, PEERS, OTHER_STREAM, HELD_UP, IDLE_UNKNOWN)

_FRAME = re.compile(r"(?:.*[/\\])?(?P<file>[^/\\]+)\((?P<line>\d+)\): (?P<function>.+)")
_BUILTIN = re.compile(r"<built-in (?:function|method) (\S+?)(?: of .*)?>")


def build_gap_rows(ops: Ops, windows: StepWindows, idle: IdleTime) -> tuple[GapRow, ...]:
    """Build rows of the idle time within the windows, per step, the longest first. They sum to all of it."""
    pieces = np.flatnonzero(idle.within)
    if not len(pieces):
        return ()
    length = idle.length_ns[pieces]
    groups = group_by_place(ops, idle, pieces)
    cause = idle.cause[pieces].astype(np.int64)
    shown = _select_longest(groups.sum_by_group(length), cause[groups.first])
    # The others of a cause share a row.
    rows = group_rows(np.where(shown[groups.of], groups.of, len(groups) + cause))
    spent, counted = rows.sum_by_group(length), rows.count_by_group()
    # Of each row the piece that lasts longest.
    order = np.lexsort((-length, rows.of))
    longest = pieces[order[np.searchsorted(rows.of[order], np.arange(len(rows)))]]
    parts, named = max(len(windows), 1), shown[groups.of[rows.first]].tolist()
    order = np.argsort(-spent, kind="stable")
    return tuple(
        GapRow(
            cause=CAUSES[idle.cause[longest[number]]],
            **(place if named[number] else dict.fromkeys(place, "")),
            gaps=int(counted[number]) / parts,
            seconds=float(spent[number]) / 1e9 / parts,
            longest_s=int(idle.length_ns[longest[number]]) / 1e9,
            longest_start_s=int(idle.begin_ns[longest[number]] - windows.span[0]) / 1e9,
            is_named=named[number],
        )
        for number, place in zip(order.tolist(), _describe_places(ops, idle, longest[order]), strict=True)
    )


def _select_longest(seconds: NDArray[np.float64], cause: Ints) -> NDArray[np.bool_]:
    """Mask the longest rows of each cause."""
    order = np.lexsort((-seconds, cause))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(cause[order], cause[order])
    longest: NDArray[np.bool_] = rank < MOST_PLACES
    return longest


def _describe_places(ops: Ops, idle: IdleTime, pieces: Ints) -> Iterator[dict[str, str]]:
    """Describe the known place of each piece."""
    names, places = [*ops.trace.names, ""], idle.places  # NONE (-1) takes the last
    modules, following = [*places.modules, ""], _find_following_ops(ops, idle, pieces)
    for piece, before in zip(pieces.tolist(), following.tolist(), strict=True):
        yield {
            "frame": names[places.frame[piece]],
            "user_frame": names[places.own[piece]],
            "builtin": names[places.builtin[piece]],
            "module": modules[places.module[piece]],
            "range": names[places.range[piece]],
            "op": names[places.op[piece]],
            "call": names[places.call[piece]],
            "next_op": names[before],
        }


def group_by_place(ops: Ops, idle: IdleTime, rows: Ints) -> RowGroups:
    """Group pieces of one cause, one CPU place and one next op."""
    return group_rows(
        idle.cause[rows],
        *(column[rows] for column in idle.places.columns.values()),
        _find_following_ops(ops, idle, rows),
    )


def _find_following_ops(ops: Ops, idle: IdleTime, rows: Ints) -> Ints:
    """The name of the op of the kernel that came next, for some pieces."""
    name = np.full(len(rows), NONE, np.int64)
    named = np.flatnonzero(idle.has_cause(*_BEFORE)[rows] & (idle.following[rows] != NONE))
    op = ops.kernels.op[idle.following[rows[named]]]
    name[named] = np.where(op == NONE, NONE, ops.trace.name[op])
    return name


def describe_idle_places(ops: Ops, idle: IdleTime) -> tuple[Ints, list[str]]:
    """For each piece, the number of a text with the CPU activity, or with the next op."""
    groups = group_by_place(ops, idle, np.arange(len(idle)))
    texts = [
        _join_place_parts(where) or _format_following(where["next_op"])
        for where in _describe_places(ops, idle, groups.first)
    ]
    return groups.of.astype(np.int64), texts


def format_function(row: GapRow) -> str:
    """The program function at the CPU place: `preprocess (data.py:31)`; empty where unknown."""
    return _format_match(_FRAME, row.user_frame)


def format_place(row: GapRow, *, around: bool = False) -> str:
    """The CPU activity, innermost first: `sleep in preprocess (data.py:31)`; empty where unknown.

    With the module and the range `around` it.
    """
    names = (*_INNER, *_AROUND) if around else _INNER
    return _join_place_parts({name: getattr(row, name) for name in names})


_INNER, _AROUND = ("frame", "user_frame", "builtin", "op", "call"), ("module", "range")


def format_frame(name: str) -> str:
    """`forward (modeling_qwen2.py:503)` of a frame as torch.profiler names it."""
    return _format_match(_FRAME, name)


def _format_following(op: str) -> str:
    return f"before {op}" if op else ""


def _join_place_parts(where: Mapping[str, str]) -> str:
    own = where["user_frame"] if where["user_frame"] != where["frame"] else ""
    parts = (
        where["call"],
        where["op"],
        _format_match(_BUILTIN, where["builtin"]),
        _format_match(_FRAME, where["frame"]),
        _format_match(_FRAME, own),
        f"module {where['module']}" if where.get("module") else "",
        f"the range {where['range']}" if where.get("range") else "",
    )
    return " in ".join(part for part in parts if part)


def _format_match(pattern: re.Pattern[str], name: str) -> str:
    match = pattern.fullmatch(name)
    if match is None:
        return name
    parts = match.groupdict()
    return f"{parts['function']} ({parts['file']}:{parts['line']})" if "file" in parts else match[1]
