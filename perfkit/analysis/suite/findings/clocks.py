"""Rules about the clocks at which GPUs ran the timed steps."""

from collections.abc import Iterator

from perfkit.analysis.compare.device_clocks import (
    describe_clock,
    describe_clock_change,
    find_main_limit,
    format_megahertz,
)
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import DeviceClocks, Variant
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent
from perfkit.devices.machine.clock_limits import ClockLimit

# A lower share of the highest clock is worth a word.
LOW = 0.95
# A reason that fewer readings give explains no median.
_COMMON = 0.1
_NAMED = 4

_COOLING = "Check cooling and power supply: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`."
_ADVICE = {
    ClockLimit.POWER_CAP: "Raise the power limit if the GPU allows it (`nvidia-smi -q -d POWER`, `-pl`); compare runs "
    "at equal clocks.",
    ClockLimit.FIXED_CLOCKS: "Reset the clocks with `nvidia-smi -rgc`, and application clocks with `-rac`.",
    ClockLimit.TEMPERATURE: _COOLING,
    ClockLimit.HARDWARE_TEMPERATURE: _COOLING,
    ClockLimit.HARDWARE_SLOWDOWN: _COOLING,
    ClockLimit.POWER_BRAKE: _COOLING,
}
_ANY_REASON = "Look up the reason with `nvidia-smi -q -d PERFORMANCE`; compare runs at equal clocks."


def find_low_clock(suite: SuiteView) -> Iterator[Finding]:
    """The first variant, the baseline before others, whose GPU was kept below its highest clock; it names the rest."""
    limited = [
        (variant, variant.clocks)
        for variant in (*suite.baselines, *suite.measured)
        if variant.clocks is not None and _is_limited(variant.clocks)
    ]
    if not limited:
        return
    variant, clocks = limited[0]
    assert clocks.max_hz is not None
    limit = find_main_limit(clocks)
    others = [f"{other.name} {describe_clock(its)}" for other, its in limited[1:]]
    yield Finding(
        id="clock.limited",
        severity="note",
        title=f"GPU ran at {format_megahertz(clocks.sm_hz)} of {format_megahertz(clocks.max_hz)} MHz: {limit}",
        variant=variant.name,
        evidence=_describe_readings(variant, clocks) + (f"; also {list_first(others, _NAMED)}" if others else ""),
        action=_ADVICE.get(ClockLimit(limit), _ANY_REASON) if limit in tuple(ClockLimit) else _ANY_REASON,
        figures={
            "clock_hz": clocks.sm_hz,
            "highest_clock_hz": clocks.max_hz,
            "limited_share": (clocks.limits or {}).get(limit, 0.0),
            "readings": clocks.readings,
            "variants": len(limited),
        },
    )


def find_other_clocks(suite: SuiteView) -> Iterator[Finding]:
    """A variant whose GPU ran at another clock than the baseline's: its speed-up is not of its work alone."""
    for variant in suite.measured:
        base = suite.get_baseline(variant)
        change = "" if base is None else describe_clock_change(base.clocks, variant.clocks)
        if base is None or not change:
            continue
        assert base.clocks is not None
        assert variant.clocks is not None
        ratio = variant.clocks.sm_hz / base.clocks.sm_hz
        yield Finding(
            id="comparison.clocks",
            severity="note",
            title=f"{variant.name} ran at {ratio:.2f}x the baseline's clock",
            variant=variant.name,
            evidence=f"{base.name} -> {variant.name}: {change}; compute-bound work speeds up and slows down with it",
            action="Lock the clocks with `nvidia-smi -lgc` to compare the work alone.",
            figures={"clock_hz": variant.clocks.sm_hz, "baseline_clock_hz": base.clocks.sm_hz},
        )


def _is_limited(clocks: DeviceClocks) -> bool:
    """True if the clock is low for a reason: many devices reach their highest clock under no load at all."""
    if clocks.max_hz is None or clocks.sm_hz >= LOW * clocks.max_hz:
        return False
    return any(share >= _COMMON for share in (clocks.limits or {}).values())


def _describe_readings(variant: Variant, clocks: DeviceClocks) -> str:
    limits = ", ".join(f"{limit} in {format_percent(share, 0)}" for limit, share in (clocks.limits or {}).items())
    rank = f" of rank {clocks.rank}" if variant.world_size > 1 else ""
    plural = "" if clocks.readings == 1 else "s"
    return (
        f"{variant.name}: median of {clocks.readings:,} reading{plural}{rank} in the timed steps, "
        f"{format_megahertz(clocks.low_hz)} to {format_megahertz(clocks.high_hz)} MHz; {limits}"
    )
