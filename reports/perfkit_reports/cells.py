"""Formats figures as cells and words, consistently in all reports."""

from collections.abc import Callable

from msgspec.structs import replace

from perfkit.core import units
from perfkit.core.record.quantity import Measurement, Quantity
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING
from perfkit_reports.names import shorten_kernel, shorten_middle
from perfkit_reports.wording import format_bounded

LONGEST = 900  # a fused optimizer's shapes fill pages; tables/*.parquet have them in full


def make_text_cell(value: str) -> Cell:
    """Text, or a dash."""
    return Cell(value or NOTHING, value=value)


def make_short_cell(value: str, limit: int = 64) -> Cell:
    """Text shortened in the middle, in full on hover."""
    return _make_named_cell(shorten_middle(value, limit), value)


def make_code_cell(value: str, limit: int = 60) -> Cell:
    """A readable kernel or op name, in full on hover."""
    return _make_named_cell(shorten_kernel(value, limit), value)


def _make_named_cell(short: str, full: str) -> Cell:
    """A name that is sorted and saved as recorded, unless it would fill the page."""
    if short == full:
        return make_text_cell(full)
    return Cell(short or NOTHING, whole=shorten_middle(full, LONGEST))


def make_seconds_cell(value: float) -> Cell:
    return Cell(units.format_seconds(value), value=value)


def make_bytes_cell(value: int) -> Cell:
    return Cell(units.format_bytes(value), value=value)


def make_integer_cell(value: int) -> Cell:
    return Cell(f"{value:,}", value=value)


def make_calls_cell(value: float) -> Cell:
    return Cell(format_count(value), value=value)


def make_share_cell(value: float) -> Cell:
    return Cell(units.format_percent(value), value=value)


def make_growth_cell(change: float, show: Callable[[float], str]) -> Cell:
    """A change of a quantity for which less is better."""
    return Cell(show(change), value=change, tone="bad" if change > 0 else "good" if change < 0 else "")


def make_optional_cell(value: float | None, show: Callable[[float], str], reason: str) -> Cell:
    """A number, or n/a with its reason."""
    return make_unknown_cell(reason) if value is None else Cell(show(value), value=value)


def make_quantity_cell(item: Quantity) -> Cell:
    """A quantity in the unit it carries."""
    if not isinstance(item, Measurement):
        return make_unknown_cell(item.reason)
    show = {
        "s": units.format_seconds,
        "bytes": units.format_bytes,
        "FLOP": units.format_flops,
        "FLOP/s": units.format_flop_rate,
        "B/s": units.format_bandwidth,
        "1": units.format_percent,
    }.get(item.unit)
    text = format_bounded(show(item.value) if show else units.format_si(item.value, item.unit), item.bound)
    text = f"{text} of {item.of}" if item.of else text
    return Cell(text, detail=f"{item.how.value}: {item.source}" if item.source else item.how.value, value=item.value)


def drop_whole(item: Quantity) -> Quantity:
    """A share without its whole, where that is named beside it."""
    return replace(item, of="") if isinstance(item, Measurement) else item


def format_count(value: float) -> str:
    """Calls per step: an integer if whole, else three digits."""
    return f"{value:,.0f}" if value == round(value) else units.format_significant(value)


def format_factor(factor: float) -> str:
    return f"{factor:.2f}×"


def format_range(low: str, high: str, unit: str) -> str:
    """`122 ms`, `126 ms` -> `122–126 ms`; the unit is repeated only if the two differ."""
    return f"{low.removesuffix(unit)}–{high}" if low.endswith(unit) else f"{low} – {high}"


def format_relative(value: float) -> str:
    """A possibly tiny relative difference: 0, or with a power of ten."""
    return "0" if value == 0 else f"{value:.1e}"


def format_change(value: float) -> str:
    """A relative change: `+7.8 %`; with more digits if it would round to 0."""
    if value == 0 or abs(value) >= 0.0005:
        return units.format_signed_percent(value)
    return f"{'+' if value > 0 else ''}{format_relative(value * 100)} %"


def format_error(error: float) -> str:
    """A relative error: `+7.8 %`, `0.0 %` if it rounds to 0."""
    return units.format_signed_percent(error) if abs(error) >= 0.0005 else units.format_percent(0)


def format_bounds(low: float, high: float) -> str:
    """Bounds of a relative change: `+6.5 to +9.3 %`."""
    return f"{format_change(low).removesuffix(' %')} to {format_change(high)}"
