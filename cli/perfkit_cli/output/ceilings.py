"""Prints the tables of a device's ceilings, and of its links'."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from perfkit.core.units import format_bandwidth, format_bytes, format_flop_rate, format_percent, format_seconds
from perfkit.cost.link_ceiling import compute_bus_bandwidth
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, Confidence, DeviceCeilings, LinkRate

# Columns of text that the table needs to say where each figure comes from, too.
_WIDE = 120


def build_ceilings_table(known: DeviceCeilings, width: int) -> Table:
    """Build a table with a row per ceiling, in the given order; sources are shown only if there is room."""
    table = Table(title=f"{known.device_name} ({known.device})", title_justify="left", box=None, pad_edge=False)
    for name in ("level", "dtype", "threads"):
        table.add_column(name, no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    for name in ("measured", "spread", "confidence"):
        table.add_column(name, no_wrap=True)
    if width >= _WIDE:
        table.add_column("source")
    for ceiling in known.ceilings:
        table.add_row(*_format_cells(ceiling, known.device_name)[: len(table.columns)])
    return table


def _format_cells(ceiling: Ceiling, device_name: str) -> tuple[str, ...]:
    confidence = "" if ceiling.confidence is None else ceiling.confidence.value
    return (
        get_unit_name(ceiling.level, device_name),
        ceiling.dtype or "",
        "" if ceiling.threads is None else str(ceiling.threads),
        format_flop_rate(ceiling.value) if ceiling.unit == "FLOP/s" else format_bandwidth(ceiling.value),
        ceiling.kind.value if ceiling.kind == CeilingKind.DATASHEET else ceiling.measured_at[:10],
        "" if ceiling.spread is None else format_percent(ceiling.spread),
        "disturbed" if ceiling.disturbance else confidence,
        ceiling.source,
    )


def build_links_table(rates: Sequence[LinkRate], ranks: int) -> Table:
    """A row for each size of a message, a column for each collective: its bus bandwidth, and how long it takes."""
    backend = rates[0].backend if rates else ""
    gpus = f", GPUs {', '.join(map(str, rates[0].gpus))}: {rates[0].link}" if rates and rates[0].gpus else ""
    table = Table(
        title=f"collectives between {ranks} ranks ({backend}{gpus})", title_justify="left", box=None, pad_edge=False
    )
    table.add_column("message", justify="right", no_wrap=True)
    of = {(rate.collective, rate.bytes): rate for rate in rates}
    collectives = list(dict.fromkeys(rate.collective for rate in rates))
    for name in collectives:
        table.add_column(name, justify="right")
    mark = "" if all(map(_is_doubtful, rates)) else "? "
    for size in sorted({rate.bytes for rate in rates}):
        table.add_row(format_bytes(size), *(_format_link_rate(of.get((name, size)), mark) for name in collectives))
    return table


def _format_link_rate(rate: LinkRate | None, mark: str) -> str:
    if rate is None:
        return "-"
    doubt = mark if _is_doubtful(rate) else ""
    return f"{doubt}{format_bandwidth(compute_bus_bandwidth(rate))}\n{format_seconds(rate.seconds)}"


def _is_doubtful(rate: LinkRate) -> bool:
    return bool(rate.disturbance) or rate.confidence == Confidence.LOW


def describe_links(rates: Sequence[LinkRate]) -> Iterator[str]:
    """Explains the figures and their confidence."""
    yield "bus bandwidth as nccl-tests defines it, and time per call; best of all calibrations"
    doubtful = list(filter(_is_doubtful, rates))
    if doubtful:
        worst = max((rate.spread or 0.0 for rate in doubtful), default=0.0)
        how_many = "all of them" if len(doubtful) == len(rates) else f"{len(doubtful)} of {len(rates)}, marked ?"
        yield (
            f"low confidence, {how_many}: halves of the repeats differ by up to {format_percent(worst)}, or "
            "the machine was busy; measure again on a quiet machine with `--force`"
        )
