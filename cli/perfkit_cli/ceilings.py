"""The table of a device's ceilings."""

from rich.table import Table

from perfkit.devices.ceiling import Ceiling, DeviceCeilings, Kind
from perfkit.devices.unit_names import unit_name
from perfkit.units import bandwidth, flops_per_s, percent

# Columns of text that the table needs to say where each figure comes from, too.
_WIDE = 120


def table(known: DeviceCeilings, width: int) -> Table:
    """A row for each ceiling, in the order given; their sources only where there is room for them."""
    made = Table(title=f"{known.device_name} ({known.device})", title_justify="left", box=None, pad_edge=False)
    for name in ("level", "dtype", "threads"):
        made.add_column(name, no_wrap=True)
    made.add_column("value", justify="right", no_wrap=True)
    for name in ("measured", "spread", "confidence"):
        made.add_column(name, no_wrap=True)
    if width >= _WIDE:
        made.add_column("source")
    for ceiling in known.ceilings:
        made.add_row(*_cells(ceiling, known.device_name)[: len(made.columns)])
    return made


def _cells(ceiling: Ceiling, device_name: str) -> tuple[str, ...]:
    confidence = "" if ceiling.confidence is None else ceiling.confidence.value
    return (
        unit_name(ceiling.level, device_name),
        ceiling.dtype or "",
        "" if ceiling.threads is None else str(ceiling.threads),
        flops_per_s(ceiling.value) if ceiling.unit == "FLOP/s" else bandwidth(ceiling.value),
        ceiling.kind.value if ceiling.kind == Kind.DATASHEET else ceiling.measured_at[:10],
        "" if ceiling.spread is None else percent(ceiling.spread),
        "disturbed" if ceiling.disturbed else confidence,
        ceiling.source,
    )
