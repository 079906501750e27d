"""Delays and waits of each rank, step by step."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.ranks.skew import MatchedCollectives
from perfkit.analysis.ranks.slots import Slots, Source
from perfkit.trace.model import Ints

Floats = NDArray[np.float64]


class StepLateness(NamedTuple):
    """Seconds with a row for each rank and a column for each of `steps`, the numbers of those in which collectives were
    matched: how much later than the first rank it came, how long it waited for the last, and how much longer it waited
    than it was late in the same collective. NaN where none was."""

    steps: Ints
    late_s: Floats
    wait_s: Floats
    early_wait_s: Floats

    def compute_last_shares(self) -> list[float | None]:
        """The share of its steps in which each rank was last; None without steps."""
        known = ~np.isnan(self.late_s)
        late = np.where(known, self.late_s, -1.0)
        # No rank is last where all arrive at once, or two at the same time.
        last = late == late.max(axis=0, initial=-1.0)
        times = (last & (last.sum(axis=0) == 1) & (late > 0)).sum(axis=1)
        steps = known.sum(axis=1)
        return [int(of) / int(all_) if all_ else None for of, all_ in zip(times, steps, strict=True)]


def compute_step_lateness(source: Source, ranks: int, slots: Slots, matched: MatchedCollectives) -> StepLateness:
    """Reduce the counted collectives of each rank to its steps, one rank at a time."""
    steps = np.unique(matched.step[matched.counted])
    late, wait, early = (np.full((ranks, len(steps)), np.nan) for _ in range(3))
    shortest = matched.longest_ns - matched.worst_ns
    for rank in range(ranks):
        rows = source(rank)
        slot = slots.find_slots(rows)
        used = matched.counted[slot]
        slot, lasted = slot[used], (rows.end_ns - rows.start_ns)[used]
        at = np.searchsorted(steps, matched.step[slot])
        matched_steps = np.bincount(at, minlength=len(steps)) > 0
        late_ns, wait_ns = matched.longest_ns[slot] - lasted, lasted - shortest[slot]
        for into, each in ((late, late_ns), (wait, wait_ns), (early, np.maximum(wait_ns - late_ns, 0))):
            into[rank, matched_steps] = (np.bincount(at, each, len(steps)) / 1e9)[matched_steps]
    return StepLateness(steps, late, wait, early)
