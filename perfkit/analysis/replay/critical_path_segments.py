"""The longest segments of the critical path: consecutive pieces of one kind, op, module and line."""

import numpy as np

from perfkit.analysis.model.replay import BEFORE, GAPS, PathRow
from perfkit.analysis.replay.path_spans import KINDS, PathSpans
from perfkit.analysis.replay.path_work import build_path_work
from perfkit.analysis.replay.replay import ReplayResult
from perfkit.analysis.trace.idle.host_places import HostEvents
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.trace.memory.source_lines import parse_line
from perfkit.trace.model import NONE, Ints

# Those beyond are too short to matter.
MOST_ROWS = 200

_GAPS, _BEFORE = KINDS.index(GAPS), KINDS.index(BEFORE)


def build_path_rows(replayed: ReplayResult, path: PathSpans, host: HostEvents | None = None) -> tuple[PathRow, ...]:
    """Group equal segments of the path, the longest total first."""
    work, trace = build_path_work(replayed, path, host), replayed.graph.ops.trace
    spans = work.spans
    # Of the gaps between kernels it does not matter which kernels these are.
    nowhere = (spans.kind == _GAPS) | (spans.kind == _BEFORE)
    keys = [np.where(nowhere, NONE, key) for key in (work.op, work.call, work.module, work.own)]
    groups = group_rows(spans.kind, *keys)
    length = spans.end_ns - spans.begin_ns
    run = _group_segments(groups.of.astype(np.int64), spans.kind == _GAPS)
    _, head = np.unique(run, return_index=True)
    lasts = np.bincount(run, weights=length)
    order = np.lexsort((-lasts, groups.of[head]))
    begins = np.searchsorted(groups.of[head][order], np.arange(len(groups) + 1))
    spent = groups.sum_by_group(length)
    names, first_ns = [*trace.names, ""], int(replayed.graph.origin_ns)  # NONE (-1) takes the last
    modules = [*work.modules, ""]
    rows = []
    for number in np.argsort(-spent, kind="stable")[:MOST_ROWS].tolist():
        op, call, module, own = (int(key[groups.first[number]]) for key in keys)
        longest = int(order[begins[number]])
        rows.append(
            PathRow(
                kind=KINDS[spans.kind[groups.first[number]]],
                op=names[op],
                call=names[call],
                module=modules[module],
                line=parse_line(names[own]) or "",
                segments=int(begins[number + 1] - begins[number]),
                seconds=float(spent[number]) / 1e9,
                longest_s=float(lasts[longest]) / 1e9,
                longest_start_s=int(spans.begin_ns[head[longest]] - first_ns) / 1e9,
            )
        )
    return tuple(rows)


def _group_segments(of: Ints, is_gap: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ints:
    """The segment number of each piece: pieces of one group separated at most by gaps between kernels."""
    run = np.empty(len(of), np.int64)
    work = np.flatnonzero(~is_gap)
    changes = np.concatenate(([False], of[work][1:] != of[work][:-1])) if len(work) else np.empty(0, np.bool_)
    run[work] = np.cumsum(changes)
    run[is_gap] = len(of) + np.arange(len(of) - len(work))
    return group_rows(run).of.astype(np.int64)
