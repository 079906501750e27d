"""Notes on a comparison of ranks: missing or duplicate ranks, and unmatched collectives."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.ranks.arrivals import CollectiveKind
from perfkit.analysis.ranks.clocks import CLOCK_ERROR_NS, RankClock
from perfkit.analysis.ranks.skew import MatchedCollectives
from perfkit.core.note import Note, make_note
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_seconds

_MOST_NAMED = 8


def collect_fleet_notes(
    rows: Sequence[RankRow],
    paths: Sequence[str],
    world_sizes: Sequence[int | None],
    matched: MatchedCollectives,
    kinds: Sequence[CollectiveKind],
    clocks: Sequence[RankClock | None],
) -> tuple[Note, ...]:
    """Collect the notes; `rows`, `paths` and `world_sizes` are of the files, `clocks` of the matched ranks."""
    return (
        *_check_ranks(rows, paths, world_sizes),
        *_check_matching(matched, kinds, sum(clock is not None for clock in clocks)),
        *_check_clocks(clocks),
    )


def _check_ranks(rows: Sequence[RankRow], paths: Sequence[str], world_sizes: Sequence[int | None]) -> Iterator[Note]:
    numbers = Counter(row.rank for row in rows if row.rank is not None)
    sizes = sorted({size for size in world_sizes if size is not None})
    if len(sizes) > 1:
        text = f"the traces have different world sizes ({_format_numbers(sizes)}): they may be from different jobs"
        yield make_note("ranks.world_sizes", text, sizes=_format_numbers(sizes))
    elif sizes and len(numbers) < sizes[0]:
        missing = [rank for rank in range(sizes[0]) if rank not in numbers]
        text = (
            f"{len(missing)} of {sizes[0]} ranks are missing ({_format_numbers(missing)}): "
            "the straggler may be one of them"
        )
        yield make_note("ranks.missing", text, missing=len(missing), ranks=sizes[0])
    unnamed = sum(row.rank is None for row in rows)
    if unnamed:
        text = f"{unnamed} of {len(rows)} traces record no rank and are named after their files"
        yield make_note("ranks.unnamed", text, traces=unnamed)
    for rank, count in sorted(numbers.items()):
        if count > 1:
            first, *others = (path for row, path in zip(rows, paths, strict=True) if row.rank == rank)
            text = f"rank {rank} is given {count} times: {first} is compared with other ranks, not {', '.join(others)}"
            yield make_note("ranks.repeated", text, rank=rank, files=count)


def _check_matching(
    matched: MatchedCollectives, kinds: Sequence[CollectiveKind], with_collectives: int
) -> Iterator[Note]:
    if not len(matched):
        yield make_note("ranks.no_collectives", "straggler unknown: no trace has a synchronizing collective")
        return
    if with_collectives < 2:
        yield make_note("ranks.one_with_collectives", "straggler unknown: only one trace has synchronizing collectives")
        return
    alone = int((matched.ranks == 1).sum())
    if alone:
        text = (
            f"{alone} of {len(matched)} collectives are in one trace only: the traces differ in steps, groups or work"
        )
        yield make_note("ranks.alone", text, collectives=alone)
    partly = sum(_count_partial(matched, kind) for kind in range(len(kinds)))
    if partly:
        text = f"{partly} of {len(matched)} collectives are on some ranks of their group only; waits cover these ranks"
        yield make_note("ranks.partial", text, collectives=partly)
    if matched.resized.any():
        text = (
            f"{int(matched.resized.sum())} collectives are excluded: their sizes differ between ranks, so they do not "
            "match"
        )
        yield make_note("ranks.sizes_differ", text, collectives=int(matched.resized.sum()))
    if matched.apart.any():
        text = (
            f"{int(matched.apart.sum())} collectives are excluded: after correcting the clock skew (to within "
            f"{format_seconds(CLOCK_ERROR_NS / 1e9)}) their ranks do not overlap, so they do not match"
        )
        yield make_note("ranks.apart", text, collectives=int(matched.apart.sum()))
    counted = np.bincount(matched.kind[matched.counted], minlength=len(kinds))
    unnamed = sum(count for count, about in zip(counted.tolist(), kinds, strict=False) if not about.group)
    if unnamed:
        text = (
            f"{unnamed} of {int(counted.sum())} collectives do not name their process group: all ranks are assumed to "
            "be in it"
        )
        yield make_note("ranks.no_groups", text, collectives=unnamed)


def _count_partial(matched: MatchedCollectives, kind: int) -> int:
    ranks = matched.ranks[matched.kind == kind]
    return int(((ranks > 1) & (ranks < ranks.max())).sum()) if len(ranks) else 0


def _check_clocks(clocks: Sequence[RankClock | None]) -> Iterator[Note]:
    islands = {clock.island for clock in clocks if clock is not None}
    if len(islands) > 1:
        text = f"clock skew unknown: the ranks form {len(islands)} sets without common collectives"
        yield make_note("ranks.no_clock_skew", text, sets=len(islands))


def _format_numbers(numbers: Sequence[int]) -> str:
    return list_first([*map(str, numbers)], _MOST_NAMED)
