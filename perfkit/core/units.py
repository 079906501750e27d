"""Formats bytes, seconds, FLOPs and rates as text; nothing else in the project does.

Units follow the field's habit: powers of 1000 for rates and FLOPs (GB/s, TFLOP/s), powers of 1024 for
amounts of memory (GiB).
"""

import math

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_IEC = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def _round_significant(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits - 1}e}")


def format_significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent: 1234.5 -> '1,234', 0.01234 -> '0.0123'."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(_round_significant(value, digits)))))
    return f"{value:,.{decimals}f}"


def _find_largest_unit(value: float, table: tuple[tuple[float, str], ...]) -> tuple[float, str] | None:
    """The largest unit of which `value`, as it will be printed, is at least one: 999.9 M is 1.00 G."""
    return next(((factor, unit) for factor, unit in table if abs(_round_significant(value / factor)) >= 1), None)


def format_si(value: float, unit: str) -> str:
    """`value` with an SI prefix: si(2.5e12, 'FLOP/s') -> '2.50 TFLOP/s'."""
    factor, prefix = _find_largest_unit(value, _SI) or (1.0, "")
    return f"{format_significant(value / factor)} {prefix}{unit}"


def format_flops(value: float) -> str:
    """A count of floating-point operations."""
    return format_si(value, "FLOP")


def format_flop_rate(value: float) -> str:
    """A rate of floating-point operations."""
    return format_si(value, "FLOP/s")


def format_bandwidth(value: float) -> str:
    """A rate of bytes, always in GB/s so that columns compare at a glance."""
    return f"{format_significant(value / 1e9)} GB/s"


def format_bytes(value: float) -> str:
    """An amount of memory in binary units."""
    scale = _find_largest_unit(value, _IEC)
    return f"{format_significant(value / scale[0])} {scale[1]}" if scale else f"{value:,.0f} B"


def format_seconds(value: float) -> str:
    """A duration: 0.0123 -> '12.3 ms'."""
    if value == 0:
        return "0 s"
    if abs(round(value)) >= 120:
        minutes, rest = divmod(abs(round(value)), 60)
        return f"{'-' if value < 0 else ''}{minutes} min {rest} s"
    factor, unit = _find_largest_unit(value, _TIME) or _TIME[-1]
    return f"{format_significant(value / factor)} {unit}"


def format_percent(value: float, digits: int = 1) -> str:
    """A share: 0.1234 -> '12.3 %'."""
    return f"{value * 100:.{digits}f} %"


def format_signed_percent(value: float, digits: int = 1) -> str:
    """A change with its sign: 0.05 -> '+5.0 %'."""
    return f"{value * 100:+.{digits}f} %"
