"""Statistics of repeated measurements of a kernel: a value, its spread, and whether to trust it. Pure arithmetic.

On a shared machine medians of a run wander by tens of percent, since whole repeats run slow together when a
neighbor is busy. A ceiling asks for what the hardware can do, so within a repeat the 99th percentile of the
rate counts, and over repeats spread in time the best one. A fixed canary measured before and after each
kernel tells slow repeats, which are dropped; two halves of what is left must agree.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from perfkit.core.spec import Struct
from perfkit.devices.ceilings.ceiling import CeilingLevel, Confidence

CANARY_TOLERANCE = 0.03
SPREAD_TOLERANCE = 0.05
MIN_KEPT = 3
MIN_USABLE = 2  # with fewer undisturbed repeats the others cannot be judged
CORE_CLOCKED = frozenset(
    {CeilingLevel.MATRIX, CeilingLevel.VECTOR, CeilingLevel.L2}
)  # these follow the core's clock, as the canary does


class Repeat(Struct):
    """One repeat: the rate over its windows in the kernel's unit, and the canary's rates before and after it."""

    rate: float
    windows: int
    canary_before: float
    canary_after: float

    @property
    def canary(self) -> float:
        return min(self.canary_before, self.canary_after)


class KernelRepeats(Struct):
    """All repeats of one kernel in the order of time."""

    level: CeilingLevel
    dtype: str | None
    threads: int | None
    label: str
    unit: str
    repeats: tuple[Repeat, ...]


class RepeatSummary(NamedTuple):
    """`spread` is None where fewer than two repeats are usable; `kept` of `total` repeats passed the canary."""

    value: float
    spread: float | None
    confidence: Confidence
    kept: int
    total: int

    @property
    def disturbed(self) -> str:
        """Reason why the value may not reflect the hardware; empty if there is none."""
        return "" if self.kept >= MIN_USABLE else f"{self.kept} of {self.total} repeats undisturbed"


def compute_quantile_rate(durations_s: Sequence[float], amount: float, quantile: float) -> float:
    """The rate that a share `quantile` of the windows does not exceed (nearest rank): 0.99 is nearly the best.

    `amount` is what one window does (FLOPs or bytes); the result is in amount per second.
    """
    ordered = sorted(durations_s)
    rank = math.ceil((1 - quantile) * len(ordered) - 1e-9)
    return amount / ordered[max(rank, 1) - 1]


def find_best_canary(kernels: Sequence[KernelRepeats], threads: int | None) -> float:
    """The best canary of all repeats with this number of threads."""
    return max(
        max(repeat.canary_before, repeat.canary_after)
        for kernel in kernels
        if kernel.threads == threads
        for repeat in kernel.repeats
    )


def summarize_repeats(repeats: Sequence[Repeat], canary: float, level: CeilingLevel) -> RepeatSummary:
    """The best of the repeats whose canaries are within 3 % of `canary`, the best one seen.

    Where fewer than two repeats pass, all are used. Confidence is low where the best values of the earlier and
    of the later half differ by more than 5 %, where there is only one repeat, and, for what follows the core's
    clock, where fewer than three repeats passed: a clock that wanders from minute to minute gives another best
    value next time, however well the repeats of today agree.
    """
    kept = [repeat.rate for repeat in repeats if repeat.canary >= (1 - CANARY_TOLERANCE) * canary]
    used = kept if len(kept) >= MIN_USABLE else [repeat.rate for repeat in repeats]
    value = max(used)
    spread = None
    if len(used) >= 2:
        middle = len(used) // 2
        spread = abs(max(used[:middle]) - max(used[middle:])) / value
    undisturbed = len(kept) >= MIN_KEPT or level not in CORE_CLOCKED
    trusted = undisturbed and spread is not None and spread <= SPREAD_TOLERANCE
    return RepeatSummary(value, spread, Confidence.HIGH if trusted else Confidence.LOW, len(kept), len(repeats))
