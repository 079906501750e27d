"""Finds the rank that others wait for, unless it is last by chance."""

import statistics
from collections.abc import Sequence
from math import comb

import numpy as np

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.ranks.step_lateness import StepLateness

# A rank stands out if it comes later than the middle one by more than this share of a step.
_STANDS_OUT = 0.01
# And if it is the last in this share of the steps in which any rank stands out.
_OFTEN = 2 / 3
# In fewer steps, it must be the last in all of them, or so often that any of equal ranks rarely is.
_FEW_STEPS, _RARELY = 6, 0.1


def find_straggler(rows: Sequence[RankRow], lateness: StepLateness) -> str:
    """The label of the rank that comes latest, if it stands out and often is the last; else "".

    `rows` are in the order of the ranks of `lateness`.
    """
    late = [(row.late_s, index) for index, row in enumerate(rows) if row.late_s is not None]
    if len(late) < 2:
        return ""
    most, index = max(late, key=lambda pair: pair[0])
    middle, least = statistics.median(seconds for seconds, _ in late), _STANDS_OUT * rows[index].step_s
    known = np.where(np.isnan(lateness.late_s), -1.0, lateness.late_s)
    # In other steps, which rank is the last tells nothing.
    matters = known.max(axis=0, initial=-1.0) > least
    last = (known.argmax(axis=0) == index) & matters
    is_often = _is_often_last(int(last.sum()), int(matters.sum()), len(late))
    return rows[index].label if most - middle > least and is_often else ""


def _is_often_last(times: int, steps: int, ranks: int) -> bool:
    if times >= (steps if steps < _FEW_STEPS else _OFTEN * steps):
        return True
    chance = 1 / ranks
    tail = sum(
        comb(steps, count) * chance**count * (1 - chance) ** (steps - count) for count in range(times, steps + 1)
    )
    return ranks * tail < _RARELY
