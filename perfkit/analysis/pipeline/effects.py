"""Maps a finding's change to kernels, calls and spans of the recording."""

from collections.abc import Iterable

import numpy as np

from perfkit.analysis.findings.change import RECOMPUTED, REPEATED, SHORT, UNUSED, Change, Takes
from perfkit.analysis.model.trace import CollectiveRow, CopyRow
from perfkit.analysis.replay.change_effect import ChangeEffect
from perfkit.analysis.replay.edges import Flags, Floats
from perfkit.analysis.replay.graph_changes import find_followers
from perfkit.analysis.replay.replay import ReplayResult
from perfkit.analysis.trace.collective_rows import make_row_key
from perfkit.analysis.trace.findings.trace_view import (
    ALLOCATIONS,
    COMMUNICATION,
    FETCHING,
    GAPS,
    LATE,
    QUEUED,
    TRANSFERS,
    WAITS,
)
from perfkit.analysis.trace.rank_trace import DetailedAnalysis
from perfkit.analysis.trace.time.data_fetching import find_fetches, merge_event_times
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, join_intervals, merge_intervals, subtract_intervals
from perfkit.analysis.trace.time.launch_queue import SHORT_S
from perfkit.analysis.trace.work.collective_messages import build_message
from perfkit.analysis.trace.work.link_copies import is_pageable_copy, parse_copy_kind
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.cost.calls.collective import SYNCHRONIZING
from perfkit.trace.model import NONE, Category, Ints
from perfkit.trace.ops.graph_use import find_repeated_backward, find_unused_graph


def build_effect(
    change: Change, analyzed: DetailedAnalysis, replayed: ReplayResult, *, together: bool = False
) -> ChangeEffect | None:
    """The effect of a change on the recording, within the steps; `together`: for a simulation with the other ranks.

    None where the recording does not show what waits for it: for collectives of CPU threads.
    """
    exchanges = bool(change.without & {COMMUNICATION, TRANSFERS}) or any(
        isinstance(takes.row, CollectiveRow) for takes in change.takes
    )
    if exchanges and not replayed.work.on_device:
        return None
    takes, joins = _map_rows(change.takes, analyzed)
    takes, joins, returns = _map_links(change.takes, analyzed, takes, joins)
    pieces, windows = analyzed.engine.pieces, analyzed.engine.windows
    within = analyzed.engine.within
    ops, names = pieces.ops, change.without
    calls = analyzed.calls
    gone: list[Ints] = [np.empty(0, np.int64)]
    idle, spans = EMPTY, merge_intervals(windows.spans[:, 0], windows.spans[:, 1])
    if COMMUNICATION in names:
        takes[within & pieces.is_kind(WorkKind.COMMUNICATION)] = 0.0
    if TRANSFERS in names:
        takes = np.where(within, np.minimum(takes, _compute_waiting_shares(analyzed, together=together)), takes)
    if RECOMPUTED in names:
        again = within & np.append(ops.recomputed, False)[pieces.owner]
        takes[again], joins[again] = 0.0, True
    if UNUSED in names:
        unused = within & np.append(find_unused_graph(ops), False)[pieces.owner]
        takes[unused], joins[unused] = 0.0, True
    if REPEATED in names:
        repeated = within & np.append(find_repeated_backward(ops), False)[pieces.owner]
        takes[repeated], joins[repeated] = 0.0, True
    if SHORT in names and pieces.on_device:
        short = within & (ops.trace.category[pieces.event] == Category.KERNEL) & (pieces.busy_ns < SHORT_S * 1e9)
        joins[find_followers(replayed.graph, short)] = True
    if WAITS in names:
        gone.append(calls.waits)
    if ALLOCATIONS in names:
        gone.append(calls.allocations)
    if FETCHING in names:
        gone.append(calls.fetching)
    if GAPS in names:
        idle = analyzed.gaps
    if LATE in names and not pieces.on_device:
        idle = join_intervals(idle, _find_spans_without_ops(analyzed, spans))
    return ChangeEffect(
        *_map_to_work(takes, joins, analyzed, replayed),
        gone=np.unique(np.concatenate(gone)),
        returns=returns,
        idle=idle,
        launched=spans if LATE in names and pieces.on_device else EMPTY,
        started=spans if QUEUED in names else EMPTY,
    )


def _compute_waiting_shares(analyzed: DetailedAnalysis, *, together: bool) -> Floats:
    """The share of each collective's time beyond the shortest equal one, which waits for other ranks; 0 where the
    messages are unknown, 1 for other work.

    With the other ranks in the simulation, waits come from them, except for messages to one rank.
    """
    pieces, exchanged = analyzed.engine.pieces, analyzed.engine.exchanged
    kinds = [about is not None and about.kind in SYNCHRONIZING for about in map(build_message, exchanged.table)]
    shares = np.ones(len(pieces))
    rows = np.flatnonzero(pieces.is_kind(WorkKind.COMMUNICATION) & (pieces.busy_ns > 0))
    least = np.full(len(kinds) + 1, np.inf)
    np.minimum.at(least, exchanged.which[rows], pieces.busy_ns[rows])
    least[-1] = np.inf  # of unknown messages, which may differ
    if together:
        least[:-1][np.asarray(kinds, np.bool_)] = np.inf
    shares[rows] = np.maximum(0.0, 1 - least[exchanged.which[rows]] / pieces.busy_ns[rows])
    return shares


def _map_rows(takes: Iterable[Takes], analyzed: DetailedAnalysis) -> tuple[Floats, Flags]:
    """The fraction of each piece's time that remains by the rows of ops, kernels and products, and whether it joins."""
    part, joins = np.ones(len(analyzed.engine.pieces)), np.zeros(len(analyzed.engine.pieces), np.bool_)
    wanted = {id(taken.row): taken for taken in takes}
    for table in (analyzed.kernels, analyzed.ops, analyzed.gemms, analyzed.attentions):
        changed = [wanted.get(id(row)) for row in table.rows]
        if any(changed):
            of_row = np.asarray([*(1.0 if taken is None else taken.part for taken in changed), 1.0])
            join_row = np.asarray([*(taken is not None and taken.joins for taken in changed), False])
            part, joins = np.minimum(part, of_row[table.row_of]), joins | join_row[table.row_of]
    return part, joins


def _map_links(
    takes: Iterable[Takes], analyzed: DetailedAnalysis, part: Floats, joins: Flags
) -> tuple[Floats, Flags, Ints]:
    """The same including collectives, copies, and the calls of pageable copies, which no longer wait."""
    pieces, exchanged = analyzed.engine.pieces, analyzed.engine.exchanged
    within, names = analyzed.engine.within, pieces.ops.trace.names
    returns: list[Ints] = [np.empty(0, np.int64)]
    for row, of_row, _ in takes:
        if isinstance(row, CollectiveRow):
            key = (row.name, row.group, row.dtype, row.message_bytes)
            matching = [make_row_key(about) == key for about in exchanged.table]
            chosen = np.asarray([*matching, False])[exchanged.which]
        elif isinstance(row, CopyRow):
            matching = [parse_copy_kind(name) == row.kind and is_pageable_copy(name) == row.pageable for name in names]
            chosen = pieces.is_kind(WorkKind.COPY) & np.asarray(matching)[pieces.name]
            if row.pageable:
                launch = pieces.ops.kernels.launch[chosen & within].astype(np.int64)
                returns.append(launch[launch != NONE])
        else:
            continue
        part = np.where(chosen & within, np.minimum(part, of_row), part)
    return part, joins, np.unique(np.concatenate(returns))


def _map_to_work(
    part: Floats, joins: Flags, analyzed: DetailedAnalysis, replayed: ReplayResult
) -> tuple[Floats, Flags]:
    """Map to the pieces of the replay's work: equal kernels on a device, ops without one."""
    if replayed.work.on_device:
        return part, joins
    owner, count = analyzed.engine.pieces.owner, len(replayed.work)
    known = owner != NONE
    takes, joined_ops = np.ones(count), np.zeros(count, np.bool_)
    np.minimum.at(takes, owner[known], part[known])
    joined_ops[owner[known & joins]] = True
    return takes, joined_ops


def _find_spans_without_ops(analyzed: DetailedAnalysis, spans: Intervals) -> Intervals:
    """Spans without an op, an exchange or a fetch."""
    pieces = analyzed.engine.pieces
    trace = pieces.ops.trace
    return subtract_intervals(
        spans,
        join_intervals(merge_intervals(pieces.start_ns, pieces.end_ns), merge_event_times(trace, find_fetches(trace))),
    )
