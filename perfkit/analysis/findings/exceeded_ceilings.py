"""The warning about measured ceilings that work exceeded, of a suite and of a trace of this machine."""

from typing import NamedTuple

from perfkit.devices.ceiling import DeviceCeilings
from perfkit.units import format_flop_rate


class CeilingWarning(NamedTuple):
    title: str
    evidence: str
    action: str


def describe_exceeded_ceilings(known: DeviceCeilings | None) -> CeilingWarning | None:
    """None where no ceiling was refuted."""
    beaten = [] if known is None else [ceiling for ceiling in known.ceilings if ceiling.refuted]
    if not beaten:
        return None
    names = ", ".join(dict.fromkeys(f"{ceiling.dtype or ''} {ceiling.level}".strip() for ceiling in beaten))
    low = min(beaten, key=lambda ceiling: ceiling.value)
    day = f" of {low.measured_at[:10]}" if low.measured_at else ""
    return CeilingWarning(
        f"Work ran faster than the measured ceiling of {names}",
        f"the calibration{day} found {format_flop_rate(low.value)}: the machine was busy then, or its clock slower. No "
        "share of it is shown",
        low.refuted.partition(": ")[2].capitalize(),
    )
