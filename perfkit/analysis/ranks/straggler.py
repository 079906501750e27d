"""Finds the ranks that others wait for, unless they are last by chance."""

import statistics
from collections.abc import Sequence
from math import comb

import numpy as np

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.ranks.step_lateness import StepLateness

# A rank stands out if it comes later than the middle one by more than this share of a step.
_STANDS_OUT = 0.01
# And if it is the last in this share of the steps; of few steps, of two ranks one is the last in two of three.
_OFTEN, _FEW_STEPS = 2 / 3, 6
# Or if any of equal ranks is as rarely the last in so many of the steps in which one stands out.
_RARELY = 0.1


def find_straggler(rows: Sequence[RankRow], lateness: StepLateness) -> str:
    """The label of the rank that comes latest, if it stands out and often is the last; else "".

    `rows` are in the order of the ranks of `lateness`.
    """
    late = [(row.late_s, index) for index, row in enumerate(rows) if row.late_s is not None]
    if len(late) < 2:
        return ""
    most, index = max(late, key=lambda pair: pair[0])
    middle, least = statistics.median(seconds for seconds, _ in late), _STANDS_OUT * rows[index].step_s
    if most - middle <= least:
        return ""
    often = 1.0 if len(lateness.steps) < _FEW_STEPS else _OFTEN
    share = lateness.compute_last_shares()[index]
    known = np.where(np.isnan(lateness.late_s), -1.0, lateness.late_s)
    standing_out = known.max(axis=0, initial=-1.0) > least
    times = int(((known.argmax(axis=0) == index) & standing_out).sum())
    by_chance = _compute_chance(times, int(standing_out.sum()), len(late))
    return rows[index].label if share is None or share >= often or by_chance < _RARELY else ""


def find_late_ranks(step_s: float, lateness: StepLateness) -> list[int]:
    """The ranks that come at least half as late as the latest one, the latest first: without it the others would still
    wait for them.

    Empty if they are more than half of all ranks (of an odd number, one more), or not the last ones in most steps; or
    if one of them comes late after waiting as long elsewhere. That it waits for a later one where it is late itself
    does not count.
    """
    late_s, early_s = (np.where(np.isnan(each), 0.0, each) for each in (lateness.late_s, lateness.early_wait_s))
    ranks, steps = late_s.shape
    if not steps:
        return []
    mean = late_s.mean(axis=1)
    order = np.argsort(-mean, kind="stable")
    late, others = (order[part] for part in (mean[order] >= mean.max() / 2, mean[order] < mean.max() / 2))
    if len(late) > (ranks + 1) // 2 or not len(others):
        return []
    own_s = mean - early_s.mean(axis=1)
    often = 1.0 if steps < _FEW_STEPS else _OFTEN
    last = (late_s[late].min(axis=0) > late_s[others].max(axis=0)).mean()
    return late.tolist() if own_s[late].min() > _STANDS_OUT * step_s and last >= often else []


def _compute_chance(times: int, steps: int, ranks: int) -> float:
    """An upper bound of the chance that any of equal ranks is the last in so many of the steps."""
    chance = 1 / ranks
    tail = (comb(steps, count) * chance**count * (1 - chance) ** (steps - count) for count in range(times, steps + 1))
    return ranks * sum(tail)
