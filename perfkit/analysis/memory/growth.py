"""Memory growth: blocks left at the end of a step, by origin, that grow step after step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.memory.allocation_lifetimes import Lifetimes
from perfkit.analysis.memory.totals import compute_totals, find_steps
from perfkit.analysis.model.memory_model import MemoryGrowth
from perfkit.core.allocations import CATEGORIES, NONE, Allocations, Ints

LEAST_STEPS = 3  # the first may build what lasts (optimizer state, caches), and one more shows no trend
LEAST_BYTES_PER_STEP = 1024  # below it are counters and losses kept as numbers: a million steps leave 1 GiB
IN_MOST = 0.9  # of the steps but the first must leave something
STEADY = 10  # times the least that a step leaves is the most: what comes in one step is not a leak
SHARE_OF_TOTAL = 0.5  # of an origin's growth must show in the total, else others shrink by it: it is replaced

# How blocks are put together, finest first: what a leak with changing shapes leaves is found without them.
_LEVELS: tuple[tuple[str, ...], ...] = (("op", "module", "line", "shape", "dtype"), ("op", "module", "line"))


@dataclass(frozen=True)
class _KeptBlocks:
    """Blocks alive at the end of the step they were born in: the event that made them, the steps of birth and death."""

    event: Ints
    size: Ints
    category: Ints
    born: Ints
    died: Ints

    def select_blocks(self, chosen: NDArray[np.bool_]) -> "_KeptBlocks":
        return _KeptBlocks(
            self.event[chosen], self.size[chosen], self.category[chosen], self.born[chosen], self.died[chosen]
        )


def find_growth(allocations: Allocations, lives: Lifetimes, categories: NDArray[np.int8]) -> tuple[MemoryGrowth, ...]:
    """Find growth from step to step, most bytes first; empty with fewer than three complete steps.

    Blocks born in a step and alive at its end are put together by category, op, module, line, shape and dtype. What
    one origin holds at the ends of steps must never shrink, grow in nearly all but the first, in the last too, by
    steady amounts, and the bytes alive must grow with it: so a cache that fills, state made once, buffers that are
    replaced and lists that are emptied are no leaks. What is left over is tried again without shape and dtype.

    A leak whose origins were recorded in some steps only is found by category and size, with all texts "". Different
    origins may meet there, such as state that is built up once and its buffers: only blocks that are never freed
    count, and the first step must leave some, too.

    Bytes are the mean over the steps but the first. `categories` are indices into `CATEGORIES`, one a life.
    """
    steps = find_steps(allocations)
    ends = steps.last if allocations.failed is None else steps.last[:-1]  # the step that failed has no end
    if len(ends) < LEAST_STEPS:
        return ()
    kept = _select_kept_blocks(lives, categories, int(steps.first[0]), ends)
    alive = compute_totals(lives, len(allocations))[ends + 1]
    total = int(alive[-1] - alive[0])
    growing: list[MemoryGrowth] = []
    for texts in _LEVELS:
        columns = {text: getattr(allocations, text)[kept.event] for text in texts}
        grows, members = _find_growing_origins(allocations, kept, columns, len(ends), total)
        growing += grows
        kept = kept.select_blocks(~members)
    growing += _find_growing_sizes(allocations, kept.select_blocks(kept.died == len(ends)), len(ends), total)
    return tuple(sorted(growing, key=lambda row: -row.bytes_per_step))


def _select_kept_blocks(lives: Lifetimes, categories: NDArray[np.int8], first: int, ends: Ints) -> _KeptBlocks:
    born, died = np.searchsorted(ends, lives.born), np.searchsorted(ends, lives.died)
    stays = np.flatnonzero((lives.born >= first) & (died > born))
    return _KeptBlocks(
        lives.born[stays], lives.size[stays], categories[stays].astype(np.int64), born[stays], died[stays]
    )


def _find_growing_sizes(allocations: Allocations, kept: _KeptBlocks, steps: int, total: int) -> list[MemoryGrowth]:
    size = _number_rows([kept.category, kept.size])
    left = np.unique(size * steps + kept.born) // steps  # each size once for each step that leaves blocks of it
    often = np.flatnonzero(np.bincount(left) >= IN_MOST * steps)
    growing, _ = _find_growing_origins(allocations, kept.select_blocks(np.isin(size, often)), {}, steps, total)
    return growing


def _find_growing_origins(
    allocations: Allocations, kept: _KeptBlocks, texts: Mapping[str, Ints], steps: int, total: int
) -> tuple[list[MemoryGrowth], NDArray[np.bool_]]:
    """The growing origins, distinguished by category and the numbers of their `texts`, and their blocks."""
    origin = _number_rows([kept.category, *texts.values()])
    often = np.flatnonzero(np.bincount(origin) >= IN_MOST * (steps - 1))  # others leave nothing in too many steps
    row = np.full(len(kept.size), NONE, np.int64)
    chosen = np.isin(origin, often)
    row[chosen] = np.searchsorted(often, origin[chosen])
    size = _compute_changes(row, kept, kept.size, (len(often), steps))
    blocks = _compute_changes(row, kept, np.ones(len(kept.size), np.int64), (len(often), steps))
    won = size[:, 1:].sum(axis=1)
    least = np.where(size[:, 1:] > 0, size[:, 1:], won[:, None]).min(axis=1)
    grows = (
        (size >= 0).all(axis=1)
        & (size[:, -1] > 0)
        & ((size[:, 1:] > 0).sum(axis=1) >= IN_MOST * (steps - 1))
        & (size[:, 1:].max(axis=1) <= STEADY * least)
        & (won > LEAST_BYTES_PER_STEP * (steps - 1))
        & (total >= SHARE_OF_TOTAL * won)
    )
    rows = []
    for number in np.flatnonzero(grows).tolist():
        one = int(np.argmax(row == number))
        rows.append(
            MemoryGrowth(
                bytes_per_step=round(int(won[number]) / (steps - 1)),
                blocks_per_step=float(blocks[number, 1:].mean()),
                steps=steps,
                category=CATEGORIES[int(kept.category[one])],
                **{text: allocations.names[int(column[one])] for text, column in texts.items()},
            )
        )
    return rows, np.isin(row, np.flatnonzero(grows))


def _number_rows(columns: Sequence[Ints]) -> Ints:
    """A number for each distinct row of the columns, from 0 on."""
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, number = np.unique(number * (int(column.max(initial=0)) + 1) + column, return_inverse=True)
    return number


def _compute_changes(row: Ints, kept: _KeptBlocks, amount: Ints, shape: tuple[int, int]) -> Ints:
    """The change of each row's bytes at the ends of steps, per step."""
    changes = np.zeros((shape[0], shape[1] + 1), np.int64)  # what dies after the last step, in none
    mine = row != NONE
    np.add.at(changes, (row[mine], kept.born[mine]), amount[mine])
    np.subtract.at(changes, (row[mine], kept.died[mine]), amount[mine])
    return changes[:, :-1]
