"""The only place that turns bytes, seconds, FLOPs and rates into text.

Units follow the field's habit: powers of 1000 for rates and FLOPs (GB/s, TFLOP/s), powers of 1024 for
amounts of memory (GiB).
"""

import math

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_IEC = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_TIME = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """`value` with `digits` significant digits and no exponent: 1234.5 -> '1,234', 0.01234 -> '0.0123'."""
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def si(value: float, unit: str) -> str:
    """`value` with an SI prefix: si(2.5e12, 'FLOP/s') -> '2.50 TFLOP/s'."""
    for factor, prefix in _SI:
        if abs(value) >= factor:
            return f"{significant(value / factor)} {prefix}{unit}"
    return f"{significant(value)} {unit}"


def flops(value: float) -> str:
    """A count of floating-point operations."""
    return si(value, "FLOP")


def flops_per_s(value: float) -> str:
    """A rate of floating-point operations."""
    return si(value, "FLOP/s")


def bandwidth(value: float) -> str:
    """A rate of bytes, always in GB/s so that columns compare at a glance."""
    return f"{significant(value / 1e9)} GB/s"


def nbytes(value: float) -> str:
    """An amount of memory in binary units."""
    for factor, unit in _IEC:
        if abs(value) >= factor:
            return f"{significant(value / factor)} {unit}"
    return f"{value:,.0f} B"


def seconds(value: float) -> str:
    """A duration: 0.0123 -> '12.3 ms'."""
    if value == 0:
        return "0 s"
    if abs(value) >= 120:
        minutes, rest = divmod(value, 60)
        return f"{minutes:.0f} min {rest:.0f} s"
    for factor, unit in _TIME:
        if abs(value) >= factor:
            return f"{significant(value / factor)} {unit}"
    return f"{significant(value / 1e-9)} ns"


def percent(value: float, digits: int = 1) -> str:
    """A share: 0.1234 -> '12.3 %'."""
    return f"{value * 100:.{digits}f} %"


def signed_percent(value: float, digits: int = 1) -> str:
    """A change with its sign: 0.05 -> '+5.0 %'."""
    return f"{value * 100:+.{digits}f} %"
