"""Notes on a comparison of ranks: which ranks are missing or given twice, and what could not be matched."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.ranks.arrivals import CollectiveKind
from perfkit.analysis.ranks.clocks import CLOCK_ERROR_NS, RankClock
from perfkit.analysis.ranks.skew import MatchedCollectives
from perfkit.units import format_seconds

_MOST_NAMED = 8


def collect_fleet_notes(
    rows: Sequence[RankRow],
    paths: Sequence[str],
    world_sizes: Sequence[int | None],
    matched: MatchedCollectives,
    kinds: Sequence[CollectiveKind],
    clocks: Sequence[RankClock | None],
) -> tuple[str, ...]:
    """Notes in words; `rows`, `paths` and `world_sizes` are of the files, `clocks` of the ranks that were matched."""
    return (
        *_check_ranks(rows, paths, world_sizes),
        *_check_matching(matched, kinds, sum(clock is not None for clock in clocks)),
        *_check_clocks(clocks),
    )


def _check_ranks(rows: Sequence[RankRow], paths: Sequence[str], world_sizes: Sequence[int | None]) -> Iterator[str]:
    numbers = Counter(row.rank for row in rows if row.rank is not None)
    sizes = sorted({size for size in world_sizes if size is not None})
    if len(sizes) > 1:
        yield f"the traces name different numbers of ranks ({_format_numbers(sizes)}): they may be of different jobs"
    elif sizes and len(numbers) < sizes[0]:
        missing = [rank for rank in range(sizes[0]) if rank not in numbers]
        yield (
            f"{len(missing)} of {sizes[0]} ranks are not among the traces ({_format_numbers(missing)}): "
            "the straggler may be one of them"
        )
    unnamed = sum(row.rank is None for row in rows)
    if unnamed:
        yield f"{unnamed} of {len(rows)} traces do not tell their rank: they are called by their file names"
    for rank, count in sorted(numbers.items()):
        if count > 1:
            first, *others = (path for row, path in zip(rows, paths, strict=True) if row.rank == rank)
            yield f"rank {rank} is given {count} times: {first} is compared with other ranks, not {', '.join(others)}"


def _check_matching(
    matched: MatchedCollectives, kinds: Sequence[CollectiveKind], with_collectives: int
) -> Iterator[str]:
    if not len(matched):
        yield "no trace holds a collective in which ranks wait for each other: nothing tells the straggler"
        return
    if with_collectives < 2:
        yield "only one trace holds collectives in which ranks wait for each other: nothing tells the straggler"
        return
    alone = int((matched.ranks == 1).sum())
    if alone:
        yield (
            f"{alone} of {len(matched)} collectives are on one of the traces only: traces of other steps, "
            "of other groups, or of ranks that did something else"
        )
    partly = sum(_count_partial(matched, kind) for kind in range(len(kinds)))
    if partly:
        yield f"{partly} of {len(matched)} collectives are on some ranks of their group only; waits are those of these"
    if matched.resized.any():
        yield (
            f"{int(matched.resized.sum())} collectives are left out: their sizes differ between ranks, so they are not "
            "the same ones"
        )
    if matched.apart.any():
        yield (
            f"{int(matched.apart.sum())} collectives are left out: with the clock skew removed (to within "
            f"{format_seconds(CLOCK_ERROR_NS / 1e9)}) not all ranks are in them at one time, so they are not the same ones"
        )
    used = np.unique(matched.kind[matched.counted]).tolist()
    if any(not kinds[kind].group for kind in used):
        yield "process groups are not named in the traces: all ranks are taken to be in one"


def _count_partial(matched: MatchedCollectives, kind: int) -> int:
    ranks = matched.ranks[matched.kind == kind]
    return int(((ranks > 1) & (ranks < ranks.max())).sum()) if len(ranks) else 0


def _check_clocks(clocks: Sequence[RankClock | None]) -> Iterator[str]:
    islands = {clock.island for clock in clocks if clock is not None}
    if len(islands) > 1:
        yield f"the ranks fall into {len(islands)} sets without common collectives: their clock skew is not known"


def _format_numbers(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_MOST_NAMED])
    return shown if len(numbers) <= _MOST_NAMED else f"{shown} ..."
