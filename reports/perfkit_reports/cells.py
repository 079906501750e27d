"""Figures as cells and words, alike in every report."""

from perfkit import units
from perfkit.record import Measurement, Quantity
from perfkit_reports.document.cells import NOT_KNOWN as NOT_KNOWN
from perfkit_reports.document.cells import Cell as Cell
from perfkit_reports.document.cells import unknown as unknown
from perfkit_reports.wording import bounded as bounded
from perfkit_reports.wording import plural as plural


def quantity(known: Quantity) -> Cell:
    """A quantity in the unit it carries."""
    if not isinstance(known, Measurement):
        return unknown(known.reason)
    show = {
        "s": units.seconds,
        "bytes": units.nbytes,
        "FLOP": units.flops,
        "FLOP/s": units.flops_per_s,
        "B/s": units.bandwidth,
        "1": units.percent,
    }.get(known.unit)
    text = bounded(show(known.value) if show else units.si(known.value, known.unit), known.bound)
    return Cell(
        text, detail=f"{known.how.value}: {known.source}" if known.source else known.how.value, value=known.value
    )


def times(factor: float) -> str:
    return f"{factor:.2f}×"


def span(low: str, high: str, unit: str) -> str:
    """`122 ms`, `126 ms` -> `122–126 ms`; the unit is repeated only where the two differ."""
    return f"{low.removesuffix(unit)}–{high}" if low.endswith(unit) else f"{low} – {high}"


def relative(value: float) -> str:
    """A relative difference that may be tiny: 0 or one significant digit and the power of ten."""
    return "0" if value == 0 else f"{value:.1e}"
