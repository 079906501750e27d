"""The account of memory at the peak: every byte in a category, and the categories sum to the peak."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate

from perfkit.analysis.replay import AT_START, AllocationEvent, KnownBlock, Life, category, replay
from perfkit.analysis.result import LiveBlock, MemoryAccount, MemoryShare

TIMELINE_POINTS = 400
LARGEST = 20


def account(
    events: Sequence[AllocationEvent],
    known: Sequence[KnownBlock],
    source: str,
    beyond: Callable[[int], tuple[MemoryShare, ...]] | None = None,
) -> MemoryAccount | None:
    """The account of a memory pass; None where there is neither an event nor a known block.

    Args:
        events: allocations and frees in the order of time.
        known: storages alive when the events begin.
        source: how the events were obtained.
        beyond: given the peak, what lies outside of the allocator.
    """
    lives = replay(events, known)
    if not lives:
        return None
    named = [(life, category(life, events)) for life in lives]
    totals = list(accumulate(_changes([life for life, _ in named], len(events))))
    peak = max(range(len(totals)), key=totals.__getitem__)
    at_peak = [(life, name) for life, name in named if life.born < peak <= life.died]
    sums: dict[str, int] = defaultdict(int)
    for life, name in at_peak:
        sums[name] += life.size_bytes
    assert sum(sums.values()) == totals[peak], "the categories at the peak must sum to it"
    moments = _thinned(len(totals), peak)
    start_s = events[0].time_s if events else 0.0
    return MemoryAccount(
        peak_bytes=totals[peak],
        peak_phase=events[peak - 1].phase if peak > 0 else "",
        source=source,
        categories=tuple(
            MemoryShare(category=name, bytes=size) for name, size in sorted(sums.items(), key=lambda item: -item[1])
        ),
        beyond=() if beyond is None else beyond(totals[peak]),
        timeline_s=tuple(0.0 if moment == 0 else events[moment - 1].time_s - start_s for moment in moments),
        timeline_categories=_series(named, len(events), moments),
        largest=tuple(_live_block(life, name, events) for life, name in _largest(at_peak)),
    )


def _changes(lives: Sequence[Life], events: int) -> list[int]:
    """Change of the bytes alive at each moment: moment 0 is the start, moment i + 1 is after event i.

    A block is alive at moment m if `born + 1 <= m <= died`, that is `born < m <= died`.
    """
    changes = [0] * (events + 1)
    for life in lives:
        changes[life.born + 1] += life.size_bytes
        if life.died < events:
            changes[life.died + 1] -= life.size_bytes
    return changes


def _series(named: Sequence[tuple[Life, str]], events: int, moments: Sequence[int]) -> dict[str, tuple[int, ...]]:
    by_category: dict[str, list[Life]] = defaultdict(list)
    for life, name in named:
        by_category[name].append(life)
    series: dict[str, tuple[int, ...]] = {}
    for name, lives in sorted(by_category.items()):
        totals = list(accumulate(_changes(lives, events)))
        series[name] = tuple(totals[moment] for moment in moments)
    return series


def _thinned(count: int, peak: int) -> list[int]:
    """At most `TIMELINE_POINTS` of `count` moments, evenly spread, the peak and both ends always among them."""
    if count <= TIMELINE_POINTS:
        return list(range(count))
    spread = TIMELINE_POINTS - 1
    return sorted({*(round(i * (count - 1) / (spread - 1)) for i in range(spread)), peak})


def _largest(lives: Sequence[tuple[Life, str]]) -> list[tuple[Life, str]]:
    return sorted(lives, key=lambda item: -item[0].size_bytes)[:LARGEST]


def _live_block(life: Life, name: str, events: Sequence[AllocationEvent]) -> LiveBlock:
    if life.known is not None:
        origin = life.known.name
    elif life.born == AT_START:
        origin = "allocated before the pass"
    else:
        birth = events[life.born]
        origin = " in ".join(part for part in (birth.op, birth.phase) if part) or "outside of any op"
    return LiveBlock(bytes=life.size_bytes, category=name, name=origin)
