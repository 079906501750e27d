"""Bytes that all-to-alls move between each two ranks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.fleet import ExchangeMap
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.work.collective_messages import find_recorded_splits
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.cost.calls.collective import CollectiveType, classify_collective, normalize_dtype_name
from perfkit.cost.calls.dtypes import BY_NAME
from perfkit.trace.model import NONE, CollectiveRecord

Floats = NDArray[np.float64]

# Rows and columns of the map: of more ranks, neighbors merge.
MOST_ROWS = 64
# Ranks of a group that each keep a number: of a larger group, every rank keeps one for each block of neighbors.
MOST_PEERS = 256


class Exchange(NamedTuple):
    """The bytes of a step that a rank sends to each of `ranks` and receives from each, in all-to-alls of one group.

    Of a large group `ranks` are the first members of blocks with as many `members` each, whose numbers are equal when
    divided by `block`.
    """

    ranks: tuple[int, ...]
    sent: tuple[float, ...]
    received: tuple[float, ...]
    block: int = 1
    members: tuple[int, ...] = ()


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
    totals: dict[tuple[int, ...], Floats] = {}
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
    return tuple(build_exchange(ranks, moved) for ranks, moved in totals.items())


def build_exchange(ranks: tuple[int, ...], moved: Floats) -> Exchange:
    """The exchange with these ranks, from the bytes sent (first row) and received; by blocks where they are many."""
    if len(ranks) <= MOST_PEERS:
        return Exchange(ranks, tuple(moved[0].tolist()), tuple(moved[1].tolist()))
    width = _choose_block(max(ranks))
    numbers = np.asarray(ranks, np.int64)
    order = np.argsort(numbers, kind="stable")
    _, first, members = np.unique(numbers[order] // width, return_index=True, return_counts=True)
    sent, received = np.add.reduceat(moved[:, order], first, axis=1)
    return Exchange(
        tuple(numbers[order][first].tolist()),
        tuple(sent.tolist()),
        tuple(received.tolist()),
        width,
        tuple(members.tolist()),
    )


def _choose_block(largest: int) -> int:
    """The ranks of a block: a power of two, so that those of any two groups fit into each other."""
    width = 1
    while largest // width >= MOST_ROWS:
        width *= 2
    return width


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
    cells = _Cells(named, max(exchange.block for mine in exchanges.values() for exchange in mine))
    large: dict[tuple[int, ...], dict[int, Exchange]] = {}
    for rank, mine in exchanges.items():
        for exchange in mine:
            if exchange.block > 1:
                large.setdefault(exchange.ranks, {})[rank] = exchange
            elif rank in named:
                cells.add_pairs(rank, exchange, np.asarray([peer not in exchanges for peer in exchange.ranks]))
    for members in large.values():
        cells.add_blocks(members)
    return cells.build_map()


class _Cells:
    """The cells of the map: sums of bytes, summed by cell at once, for a column per rank would take its square of
    memory."""

    def __init__(self, named: set[int], block: int) -> None:
        ranks = np.asarray(sorted(named), np.int64)
        self._width = 1 if block == 1 else _choose_block(int(ranks[-1]))
        self._blocks = np.unique(ranks // self._width)
        self._per_row = -(-len(self._blocks) // MOST_ROWS)
        rows = -(-len(self._blocks) // self._per_row)
        self._sums, self._known = np.zeros((rows, rows)), np.zeros((rows, rows), np.bool_)

    def _locate(self, ranks: Sequence[int]) -> NDArray[np.int64]:
        """The row, and column, of each rank."""
        return np.searchsorted(self._blocks, np.asarray(ranks, np.int64) // self._width) // self._per_row

    def add_pairs(self, rank: int, exchange: Exchange, untraced: NDArray[np.bool_]) -> None:
        """Add what a rank sent to each peer, and received from those without a trace."""
        own, peers = int(self._locate([rank])[0]), self._locate(exchange.ranks)
        np.add.at(self._sums[own], peers, exchange.sent)
        self._known[own, peers] = True
        np.add.at(self._sums[:, own], peers[untraced], np.asarray(exchange.received)[untraced])
        self._known[peers[untraced], own] = True

    def add_blocks(self, members: Mapping[int, Exchange]) -> None:
        """Add what the traced members of a large group sent by block.

        Where a block of senders lacks traces, the receivers know more, unless they lack traces as well.
        """
        group = next(iter(members.values()))
        own = np.searchsorted(group.ranks, np.fromiter(members, np.int64), side="right") - 1
        traced = np.bincount(own, minlength=len(group.ranks))
        sent, received = (np.zeros((len(group.ranks), len(group.ranks))) for _ in range(2))
        np.add.at(sent, own, [exchange.sent for exchange in members.values()])
        np.add.at(received.T, own, [exchange.received for exchange in members.values()])
        lacking = traced < np.asarray(group.members)
        moved = np.where(lacking[:, np.newaxis], np.maximum(sent, received), sent)
        place = self._locate(group.ranks)
        np.add.at(self._sums, (place[:, np.newaxis], place), moved)
        self._known[place[:, np.newaxis], place] |= (traced > 0)[:, np.newaxis] | (traced > 0)

    def build_map(self) -> ExchangeMap:
        return ExchangeMap(
            ranks=tuple((self._blocks[:: self._per_row] * self._width).tolist()),
            bytes=tuple(
                tuple(value if is_known else None for value, is_known in zip(row, mask, strict=True))
                for row, mask in zip(self._sums.tolist(), self._known.tolist(), strict=True)
            ),
            ranks_per_row=self._per_row * self._width,
        )
