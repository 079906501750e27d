"""Parses amounts as users write them, by the unit of the quantity (`64MiB`, `5ms`, `1.5G`), and formats them."""

import math
import re

from perfkit.core import units
from perfkit.core.errors import UsageError

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}

# The suffixes of amounts, by the quantity's unit.
SUFFIXES: dict[str, dict[str, float]] = {
    "bytes": {
        "B": 1.0,
        **{f"{prefix}B": factor for prefix, factor in _DECIMAL.items() if prefix},
        **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGT", start=1)},
        "KB": 1e3,
    },
    "s": {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0},
    "J": {"": 1.0, "mJ": 1e-3, "J": 1.0, "kJ": 1e3},
    "FLOP": {**_DECIMAL, **{f"{prefix}FLOP": factor for prefix, factor in _DECIMAL.items()}},
    "1/s": _DECIMAL,
    "1": {"": 1.0, "%": 0.01},
    "": {"": 1.0},
}

# An example of each unit.
EXAMPLES = {"bytes": "64MiB", "s": "5ms", "J": "5J", "FLOP": "1.5G", "1/s": "100", "1": "0.02", "": "2"}

# A share below this is a rounding error.
_TINY = 1e-5

_NUMBER = re.compile(r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<suffix>[A-Za-z%/]*)")


def parse_amount(text: str, unit: str) -> float:
    """Parse a non-negative amount in the quantity's unit: `64MiB` in bytes, `5ms` in seconds, `1.5G` FLOPs.

    Where a unit has several suffixes, one is required unless the amount is 0. Raises `UsageError` with an example for
    anything else.
    """
    match = _NUMBER.fullmatch(text.strip())
    suffixes = SUFFIXES[unit]
    if match is None:
        raise UsageError(f"{text.strip()!r} is not an amount: expected a number such as {EXAMPLES[unit]}")
    number, suffix = float(match["number"]), match["suffix"]
    if number < 0 or not math.isfinite(number * suffixes.get(suffix, 1.0)):
        raise UsageError(f"{text.strip()!r} is not an amount: expected a finite, non-negative number")
    if suffix in suffixes:
        return number * suffixes[suffix]
    if not suffix and number == 0:
        return 0.0
    known = ", ".join(spelling for spelling in suffixes if spelling)
    if suffix and not known:
        raise UsageError(f"{text.strip()!r} is a count, which has no unit: expected a number such as 2")
    what = f"has the unit {suffix!r}" if suffix else "has no unit"
    raise UsageError(f"{text.strip()!r} {what}: expected one of {known}, such as {EXAMPLES[unit]}")


def format_amount(value: float, unit: str) -> str:
    """Format a value: 12.3 MiB, 5.00 ms, 1.50 GFLOP; a share in percent unless tiny; counts in full."""
    match unit:
        case "bytes":
            return units.format_bytes(value)
        case "s":
            return units.format_seconds(value)
        case "FLOP" | "J":
            return units.format_si(value, unit)
        case "1" if 0 < abs(value) < _TINY:
            return f"{value:.1e}"
        case "1":
            return f"{units.format_significant(value * 100)} %"
        case "1/s":
            return f"{units.format_significant(value)}/s"
        case _:
            return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"


def format_precise_amount(value: float, unit: str) -> str:
    """Format a value to the last digit, for two values that would look equal."""
    if unit in ("bytes", "FLOP"):
        return f"{value:,.0f} {'B' if unit == 'bytes' else unit}"
    return f"{value:.9g}{f' {unit}' if unit not in ('1', '') else ''}"
