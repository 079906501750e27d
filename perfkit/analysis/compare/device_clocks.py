"""Clocks of GPUs during timed steps: their summary, in words, and their change between two runs."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from perfkit.analysis.model.suite import DeviceClocks
from perfkit.core.record.environment import DeviceSample
from perfkit.core.record.rank_record import RankRecord
from perfkit.devices.machine.clock_limits import ClockLimit

# Clocks that differ by more are not alike: the steps of NVIDIA's clocks are 15 MHz, below 1 % of most.
ALIKE = 0.02


def summarize_clocks(records: Iterable[RankRecord]) -> DeviceClocks | None:
    """The clocks of a variant's ranks in all its runs, of the rank with the lowest; None where none reported any."""
    by_rank: dict[int, list[DeviceSample]] = {}
    for record in records:
        by_rank.setdefault(record.rank, []).extend(_select_working(record.device_samples))
    clocks = [_summarize_rank(rank, samples) for rank, samples in by_rank.items() if samples]
    return min(clocks, key=lambda each: each.sm_hz, default=None)


def describe_clock_change(before: DeviceClocks | None, after: DeviceClocks | None) -> str:
    """Both clocks in words (`1,980 MHz -> 1,410 MHz (power cap)`); "" where they are alike or one is unknown."""
    if before is None or after is None or abs(after.sm_hz / before.sm_hz - 1) <= ALIKE:
        return ""
    return f"{describe_clock(before)} -> {describe_clock(after)}"


def describe_clock(clocks: DeviceClocks) -> str:
    """The median clock with its main limit: `1,410 MHz (power cap)`."""
    limit = find_main_limit(clocks)
    return f"{format_megahertz(clocks.sm_hz)} MHz{f' ({limit})' if limit else ''}"


def find_main_limit(clocks: DeviceClocks) -> str:
    """The most frequent reason for a lower clock; "" if there was none, or the driver reports no reasons."""
    return next(iter(clocks.limits or ()), "")


def format_megahertz(clock_hz: float) -> str:
    return f"{clock_hz / 1e6:,.0f}"


def _select_working(samples: Iterable[DeviceSample]) -> list[DeviceSample]:
    """Readings of a clock while the device worked. An idle device lowers its clock, which slows nothing down."""
    return [
        sample
        for sample in samples
        if sample.sm_clock_hz is not None
        and sample.utilization != 0
        and ClockLimit.IDLE not in (sample.clock_limits or ())
    ]


def _summarize_rank(rank: int, samples: Sequence[DeviceSample]) -> DeviceClocks:
    clocks = [sample.sm_clock_hz for sample in samples if sample.sm_clock_hz is not None]
    told = [sample.clock_limits for sample in samples if sample.clock_limits is not None]
    counts = Counter(limit for limits in told for limit in limits)
    return DeviceClocks(
        rank=rank,
        readings=len(clocks),
        sm_hz=median(clocks),
        low_hz=min(clocks),
        high_hz=max(clocks),
        max_hz=next((sample.sm_clock_max_hz for sample in samples if sample.sm_clock_max_hz is not None), None),
        limits={limit: count / len(told) for limit, count in counts.most_common()} if told else None,
    )
