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
    named = {rank for mine in exchanges.values() for exchange in mine for rank in exchange.ranks}
    if not named:
        return None
    ranks = sorted(named)
    place = {rank: number for number, rank in enumerate(ranks)}
    moved = np.full((len(ranks), len(ranks)), np.nan)
    for rank, mine in exchanges.items():
        for exchange in mine:
            for peer, sent, received in zip(exchange.ranks, exchange.sent, exchange.received, strict=True):
                _add(moved, place.get(rank), place[peer], sent)
                if peer not in exchanges:
                    _add(moved, place[peer], place.get(rank), received)
    per_row = -(-len(ranks) // MOST_ROWS)
    rows = -(-len(ranks) // per_row)
    padded = np.full((rows * per_row, rows * per_row), np.nan)
    padded[: len(ranks), : len(ranks)] = moved
    cells = padded.reshape(rows, per_row, rows, per_row).swapaxes(1, 2).reshape(rows, rows, per_row * per_row)
    sums, known = np.nansum(cells, axis=2), ~np.isnan(cells).all(axis=2)
    return ExchangeMap(
        ranks=tuple(ranks[::per_row]),
        bytes=tuple(
            tuple(value if is_known else None for value, is_known in zip(row, mask, strict=True))
            for row, mask in zip(sums.tolist(), known.tolist(), strict=True)
        ),
        ranks_per_row=per_row,
    )


def _add(
    moved: np.ndarray[tuple[int, int], np.dtype[np.float64]], row: int | None, column: int | None, value: float
) -> None:
    if row is not None and column is not None:
        moved[row, column] = value + (0.0 if np.isnan(moved[row, column]) else moved[row, column])
