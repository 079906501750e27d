"""Quantities: a number with its unit and origin, or an `Unknown` with a reason, never zero."""

from enum import StrEnum

from perfkit.core.spec import Struct


class QuantityOrigin(StrEnum):
    """Origin of a number."""

    MEASURED = "measured"  # a clock, an allocator, a sensor
    COUNTED = "counted"  # counted exactly while the program ran
    MODELED = "modeled"  # a formula over recorded inputs
    DATASHEET = "datasheet"  # the vendor's figure


class Measurement(Struct, tag="known"):
    """A number, its unit (`s`, `bytes`, `FLOP`, `FLOP/s`, `B/s`, `J`, `W`, `1`), how it was obtained and its source.

    `bound` is `at least` if the source is known to be incomplete. `of` is the whole of a share, such as the peak of a
    utilization: `989 TFLOP/s (bf16)`.
    """

    value: float
    unit: str
    how: QuantityOrigin
    source: str
    bound: str = ""
    of: str = ""


class Unknown(Struct, tag="unknown"):
    """A number that is not known, with the reason."""

    reason: str


Quantity = Measurement | Unknown

NOT_MEASURED = Unknown(reason="not measured")


def make_measurement(value: float, unit: str, source: str) -> Measurement:
    return Measurement(value=value, unit=unit, how=QuantityOrigin.MEASURED, source=source)


def get_whole(quantity: Quantity) -> str:
    """What a share is a share of, empty where that is not known."""
    return quantity.of if isinstance(quantity, Measurement) else ""


def get_value(quantity: Quantity | None) -> float | None:
    """The number, or None where it is not known."""
    return quantity.value if isinstance(quantity, Measurement) else None
