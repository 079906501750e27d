"""How often a step is as long as each length, and how often one runs out of memory."""

import math
from collections.abc import Mapping, Sequence

from perfkit.analysis.model.plan import Interval, PlannedLength


def compute_longest_shares(lengths: Mapping[int, float], draws: int) -> dict[int, float]:
    """The distribution of the longest of `draws` sequences, each drawn by the shares of `lengths` alone.

    The longest is at least l with the chance 1 - (1 - t)^n, where t is the share of sequences of at least l tokens.
    """
    result: dict[int, float] = {}
    tail = longer = 0.0
    for length, share in sorted(lengths.items(), reverse=True):
        tail = min(1.0, tail + share)
        at_least = 1.0 if length == min(lengths) else -math.expm1(draws * math.log1p(-tail))
        result[length] = at_least - longer
        longer = at_least
    return dict(sorted(result.items()))


def compute_exceeding_share(lengths: Sequence[PlannedLength], limit_bytes: float | None) -> Interval | None:
    """The share of steps that exceed the limit: at least, probably, at most; None without a limit, or if a need is
    unknown."""
    if limit_bytes is None or not lengths or any(each.needed is None for each in lengths):
        return None
    value, low, high = (
        sum(
            each.step_share for each in lengths if each.needed is not None and getattr(each.needed, bound) > limit_bytes
        )
        for bound in ("value", "low", "high")
    )
    return Interval(value=value, low=low, high=high)


def compute_expected_steps(share: float) -> float:
    """The mean number of steps until one occurs whose share is `share` (geometric); infinite for none."""
    return 1 / share if share else math.inf
