"""Split of wall time: parts that never overlap and sum to the whole, to the nanosecond.

At every moment one category counts: compute first, then communication, then copies. Overlapped communication and copies
cost nothing and are not shown: the shown part is exposed. Where none of these runs, a CPU was in Python or dispatching;
a device was idle: with work queued, waiting for the CPU, or for unknown causes. Where the trace cannot contain a
device's work, its state is unknown.

Data fetching is a category of its own where the trace shows it: on a CPU all of it, whatever ran meanwhile (the loop
makes the batch itself, or waits for it), on a device the idle part with nothing queued.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import ABOUT, AT_LEAST, AT_MOST, TimeShare
from perfkit.analysis.model.time_split import (
    COMMUNICATION,
    COMPUTE_BOUND,
    COPIES,
    CPU_CATEGORIES,
    DATA,
    DEVICE_CATEGORIES,
    IDLE,
    IDLE_BESIDE,
    LATENCY_BOUND,
    MEMORY_BOUND,
    PYTHON,
    UNKNOWN_EVENTS,
    UNPLACED,
    UNRECORDED,
    WAITING_FOR_CPU,
)
from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, Ints, is_inside, sort_unique

# What the shares are where kernels were lost. What is exposed seems more without what ran beside it, and less without
# itself.
BOUNDS = {
    **dict.fromkeys((COMPUTE_BOUND, MEMORY_BOUND, *UNPLACED, LATENCY_BOUND), AT_LEAST),
    **dict.fromkeys((COMMUNICATION, COPIES), ABOUT),
    **dict.fromkeys((DATA, PYTHON, UNKNOWN_EVENTS, UNRECORDED, *IDLE), AT_MOST),
}


def list_categories(
    *, on_cpu: bool, with_data: bool, with_unknown: bool = False, with_others: bool = False
) -> tuple[str, ...]:
    """The categories in order; `with_data` for a trace with data fetching, `with_unknown` for a CPU's with events of
    unknown kind, `with_others` for one of several devices."""
    data = (DATA,) if with_data else ()
    if on_cpu:
        return (*data, *CPU_CATEGORIES[:-1], *((UNKNOWN_EVENTS,) if with_unknown else ()), PYTHON)
    first = DEVICE_CATEGORIES.index(WAITING_FOR_CPU)
    beside = (IDLE_BESIDE,) if with_others else ()
    return (*DEVICE_CATEGORIES[:first], *data, *beside, *DEVICE_CATEGORIES[first:])


@dataclass(frozen=True)
class TimeSplit:
    """Nanoseconds per window (rows) and category (columns); rows sum to the windows' lengths.

    With `are_bounds` kernels were lost that some of the time belongs to.
    """

    categories: tuple[str, ...]
    ns: NDArray[np.int64]
    are_bounds: bool = False

    def compute_shares(self, window: int | None = None, parts: int = 1) -> tuple[TimeShare, ...]:
        """Shares of one window, or of all together in seconds per part; they sum to 1. Empty for no time."""
        row = self.ns.sum(axis=0) if window is None else self.ns[window]
        total = int(row.sum())
        if total <= 0:
            return ()
        return tuple(
            TimeShare(
                category=category,
                seconds=value / 1e9 / parts,
                share=value / total,
                bound=BOUNDS[category] if self.are_bounds else "",
            )
            for category, value in zip(self.categories, row.tolist(), strict=True)
        )

    def sum_categories(self, *categories: str) -> int:
        """Nanoseconds of some categories in all windows."""
        chosen = [index for index, category in enumerate(self.categories) if category in categories]
        return int(self.ns[:, chosen].sum())


def split_wall_time(windows: Intervals, work: Mapping[str, Intervals], categories: tuple[str, ...]) -> TimeSplit:
    """Split the time of each window among the categories of `work`; the rest is the CPU's.

    Args:
        windows: disjoint, ascending.
        work: per category, when it was going on, on whatever thread or stream; of `IDLE_QUEUED` and `IDLE_UNKNOWN`
            when it was the case, whether or not the device was idle then.
        categories: as from `list_categories`; where several overlap the first one counts.
    """
    rest = categories.index(PYTHON if PYTHON in categories else WAITING_FOR_CPU)
    sets = [EMPTY if index == rest else work.get(category, EMPTY) for index, category in enumerate(categories)]
    edges = sort_unique(np.concatenate([intervals.ravel() for intervals in (windows, *sets)]))
    if len(windows) == 0 or len(edges) < 2:
        return TimeSplit(categories, np.zeros((len(windows), len(categories)), np.int64))
    begin, lengths = edges[:-1], np.diff(edges)
    label = np.full(len(begin), rest, np.int8)
    for index in reversed(range(len(sets))):
        label[is_inside(begin, sets[index])] = index
    window = np.searchsorted(windows[:, 0], begin, side="right") - 1
    within = is_inside(begin, windows)
    cell = window[within] * len(categories) + label[within]
    return TimeSplit(
        categories, _sum_cells(cell, lengths[within], len(windows) * len(categories)).reshape(len(windows), -1)
    )


def _sum_cells(cell: Ints, amounts: Ints, cells: int) -> Ints:
    """Sums per cell; exact, as doubles hold integers up to 2**53 ns, which are 104 days."""
    return np.bincount(cell, weights=amounts, minlength=cells).astype(np.int64)
