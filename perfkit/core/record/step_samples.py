"""Times of consecutive steps: of several ranks as one, and of two processes compared on a common clock."""

import math
from collections.abc import Sequence
from statistics import median

from perfkit.core.spec import Struct


class StepSamples(Struct):
    """Raw series of consecutive steps, in seconds, one entry per step.

    `device_s` is the time between device events, empty on a CPU.
    """

    wall_s: tuple[float, ...] = ()
    cpu_s: tuple[float, ...] = ()
    device_s: tuple[float, ...] = ()


def compute_log_ratio(
    reference: StepSamples, variant: StepSamples, *, by_turns: bool, cpu: bool = False
) -> float | None:
    """The log of variant / reference of two processes' steps; None if there is none, or a clock shows 0.

    Device events are used if both have them, else the wall clock, or the `cpu` clock. For steps taken `by_turns`, it is
    the median over the ratios of adjacent turns; else the ratio of the medians.
    """
    before, after = select_common_clock(reference, variant, cpu=cpu)
    if not before or not after:
        return None
    if not by_turns:
        before, after = (median(before),), (median(after),)
    if 0.0 in before or 0.0 in after:
        return None
    return median(math.log(b / a) for a, b in zip(before, after, strict=False))


def merge_slowest_ranks(ranks: Sequence[StepSamples]) -> StepSamples:
    """The steps of several ranks as one: each of a step's wall, CPU and device time is that of its slowest rank."""
    return StepSamples(
        wall_s=tuple(map(max, zip(*(rank.wall_s for rank in ranks), strict=True))),
        cpu_s=tuple(map(max, zip(*(rank.cpu_s for rank in ranks), strict=True))),
        device_s=tuple(map(max, zip(*(rank.device_s for rank in ranks), strict=True))),
    )


def select_common_clock(
    reference: StepSamples, variant: StepSamples, *, cpu: bool = False
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The steps of both on one clock: the device's where both have it, else the wall's; or the `cpu`'s."""
    if cpu:
        return reference.cpu_s, variant.cpu_s
    if reference.device_s and variant.device_s:
        return reference.device_s, variant.device_s
    return reference.wall_s, variant.wall_s
