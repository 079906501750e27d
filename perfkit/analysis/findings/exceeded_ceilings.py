"""The warning about measured ceilings that work exceeded, of a suite and of a trace of this machine."""

from typing import NamedTuple

from perfkit.core.units import format_flop_rate
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.ceilings.exceeded_ceilings import split_explanation


class CeilingWarning(NamedTuple):
    title: str
    evidence: str
    action: str


def describe_exceeded_ceilings(known: DeviceCeilings | None) -> CeilingWarning | None:
    """Describe the exceeded ceilings; None without any."""
    exceeded = [] if known is None else [ceiling for ceiling in known.ceilings if ceiling.exceeded_by]
    if not exceeded:
        return None
    names = ", ".join(dict.fromkeys(f"{ceiling.dtype or ''} {ceiling.level}".strip() for ceiling in exceeded))
    low = min(exceeded, key=lambda ceiling: ceiling.value)
    day = f" of {low.measured_at[:10]}" if low.measured_at else ""
    _, advice = split_explanation(low.exceeded_by)
    return CeilingWarning(
        f"Work exceeded the measured ceiling of {names}",
        f"calibration{day} measured {format_flop_rate(low.value)}, on a busy machine or at a lower clock; shares of "
        "this roof are not shown",
        f"{advice[:1].upper()}{advice[1:]}",
    )
