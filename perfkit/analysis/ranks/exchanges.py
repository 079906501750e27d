"""Bytes that all-to-alls move between each two ranks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.fleet import ExchangeMap
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.collective_messages import find_recorded_splits
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.cost.calls.collective import CollectiveType, classify_collective, normalize_dtype_name
from perfkit.cost.calls.dtypes import BY_NAME
from perfkit.trace.model import NONE, CollectiveRecord

# Rows and columns of the map: of more ranks, neighbors merge.
MOST_ROWS = 64


class Exchange(NamedTuple):
    """The bytes of a step that a rank sends to each of `ranks` and receives from each, in all-to-alls of one group."""

    ranks: tuple[int, ...]
    sent: tuple[float, ...]
    received: tuple[float, ...]


def find_exchanges(work: WorkAnalysis) -> tuple[Exchange, ...]:
    """The exchanges of a trace by group; of those with recorded sizes whose ranks are known."""
    pieces, exchanged = work.pieces, work.exchanged
    kinds = [classify_collective(about.name) is CollectiveType.ALL_TO_ALL for about in exchanged.table]
    rows = np.flatnonzero(
        pieces.is_kind(WorkKind.COMMUNICATION) & np.asarray([*kinds, False])[exchanged.which] & work.within
    )
    if not len(rows):
        return ()
    ops = pieces.ops
    owner = ops.kernel_op[rows] if pieces.on_device else pieces.owner[rows]
    splits = find_recorded_splits(ops, pieces.event[rows], owner)
    distinct = group_rows(exchanged.which[rows], splits)
    totals: dict[tuple[int, ...], np.ndarray[tuple[int, int], np.dtype[np.float64]]] = {}
    for first, calls in zip(distinct.first.tolist(), distinct.count_by_group().tolist(), strict=True):
        about = exchanged.table[int(exchanged.which[rows[first]])]
        ranks = _find_ranks(about, ops.trace.world_size)
        size = BY_NAME.get(normalize_dtype_name(about.dtype) or "")
        if not ranks or size is None or about.sent < 0 or about.received < 0:
            continue
        stated = None if splits[first] == NONE else ops.trace.statements[int(splits[first])]
        sent = _split(about.sent, () if stated is None else stated.sent_splits, len(ranks))
        received = _split(about.received, () if stated is None else stated.received_splits, len(ranks))
        moved = np.asarray([sent, received]) * size.size * calls / work.parts
        totals[ranks] = totals.get(ranks, np.zeros((2, len(ranks)))) + moved
    return tuple(Exchange(ranks, tuple(moved[0].tolist()), tuple(moved[1].tolist())) for ranks, moved in totals.items())


def _find_ranks(about: CollectiveRecord, world_size: int | None) -> tuple[int, ...]:
    """The ranks of the group; empty where unknown."""
    if about.ranks:
        return about.ranks if len(about.ranks) == about.group_size else ()
    return tuple(range(about.group_size)) if about.group_size == world_size else ()


def _split(elements: int, parts: Sequence[int], ranks: int) -> Sequence[float]:
    """The elements for each rank: as the parts, which count rows; equal without any."""
    if len(parts) != ranks:
        return [elements / ranks] * ranks
    whole = sum(parts)
    return [elements * part / whole if whole else 0.0 for part in parts]


def build_exchange_map(exchanges: Mapping[int, Iterable[Exchange]]) -> ExchangeMap | None:
    """The bytes from each rank (row) to each (column), from the exchanges by rank; None without any.

    What a rank without a trace sends is known from those that receive it.
    """
    groups = {exchange.ranks for mine in exchanges.values() for exchange in mine}
    named = {rank for group in groups for rank in group}
    if not named:
        return None
    ranks = np.asarray(sorted(named), np.int64)
    per_row = -(-len(ranks) // MOST_ROWS)
    rows = -(-len(ranks) // per_row)
    # Summed by cell at once: a column per rank would take its square of memory.
    sums, known = np.zeros((rows, rows)), np.zeros((rows, rows), np.bool_)
    for rank, mine in exchanges.items():
        own = int(np.searchsorted(ranks, rank)) // per_row
        for exchange in mine if rank in named else ():
            peers = np.searchsorted(ranks, exchange.ranks) // per_row
            np.add.at(sums[own], peers, exchange.sent)
            known[own, peers] = True
            untraced = np.asarray([peer not in exchanges for peer in exchange.ranks], np.bool_)
            np.add.at(sums[:, own], peers[untraced], np.asarray(exchange.received)[untraced])
            known[peers[untraced], own] = True
    return ExchangeMap(
        ranks=tuple(ranks[::per_row].tolist()),
        bytes=tuple(
            tuple(value if is_known else None for value, is_known in zip(row, mask, strict=True))
            for row, mask in zip(sums.tolist(), known.tolist(), strict=True)
        ),
        ranks_per_row=per_row,
    )
