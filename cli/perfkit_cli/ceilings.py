"""The table of a device's ceilings."""

from rich.table import Table

from perfkit.devices.ceiling import Ceiling, DeviceCeilings
from perfkit.devices.unit_names import unit_name
from perfkit.units import bandwidth, flops_per_s, percent


def table(known: DeviceCeilings) -> Table:
    """A row for each ceiling, in the order given."""
    made = Table(title=f"{known.device_name} ({known.device})", title_justify="left", box=None, pad_edge=False)
    for name in ("level", "dtype", "threads"):
        made.add_column(name)
    made.add_column("value", justify="right")
    for name in ("kind", "measured", "spread", "confidence"):
        made.add_column(name)
    made.add_column("source", no_wrap=True)
    for ceiling in known.ceilings:
        made.add_row(
            unit_name(ceiling.level, known.device_name),
            ceiling.dtype or "",
            "" if ceiling.threads is None else str(ceiling.threads),
            _value(ceiling),
            ceiling.kind.value,
            ceiling.measured_at[:10],
            "" if ceiling.spread is None else percent(ceiling.spread),
            "disturbed" if ceiling.disturbed else "" if ceiling.confidence is None else ceiling.confidence.value,
            ceiling.source,
        )
    return made


def _value(ceiling: Ceiling) -> str:
    return flops_per_s(ceiling.value) if ceiling.unit == "FLOP/s" else bandwidth(ceiling.value)
