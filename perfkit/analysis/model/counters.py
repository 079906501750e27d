"""Counters that were sampled while a trace was recorded: utilization, throughput, clocks, power."""

from perfkit.core.spec import Struct


class CounterRow(Struct):
    """One counter of one device within the steps, or within the whole trace without steps.

    Attributes:
        name: as recorded, with its unit where it has one.
        device: the device's number; None where it is none's, or not known.
        samples: how many there are.
        rate_hz: samples per second of the trace, None for a single one.
        mean: of all samples; `low` and `high` are their 5th and 95th percentile.
        busy_mean: the mean of the samples taken while the device ran a kernel; None without any.
        series: the mean of the samples in equal parts of the time of the steps, None for parts without any; the first
            begins at `begin_s` from the first event of the trace; there are `series_hz` of them a second.
    """

    name: str
    device: int | None
    samples: int
    rate_hz: float | None
    mean: float
    low: float
    high: float
    busy_mean: float | None = None
    series: tuple[float | None, ...] = ()
    begin_s: float = 0.0
    series_hz: float = 0.0
