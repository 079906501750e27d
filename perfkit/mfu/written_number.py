"""Numbers as people write them, with the error of their last digit: `5,762`, `8b`, `41.2%`, `13.5h`."""

import re
from typing import NamedTuple

from perfkit.core.errors import UsageError

PERCENT, RATE, COUNT = "1", "FLOP/s", "FLOP/token"

_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12, "p": 1e15}
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = r"(?P<digits>\d[\d,_]*(?:\.\d*)?|\.\d+)(?P<exponent>[eE][+-]?\d+)?"
_COUNT = re.compile(rf"{_NUMBER}\s*(?P<suffix>[kmgbtp]?)", re.IGNORECASE)
_TIME = re.compile(rf"{_NUMBER}\s*(?P<suffix>[a-z]+)")
_FLOPS = re.compile(
    rf"{_NUMBER}\s*(?P<prefix>[kMGTP]?)(?P<unit>FLOPs?/s(?:/GPU)?|FLOPS(?:/GPU)?|FLOPs?(?:/token)?)", re.IGNORECASE
)
_SHARE = re.compile(rf"{_NUMBER}\s*(?P<suffix>%?)")


class WrittenNumber(NamedTuple):
    """A number, and half a unit of its last written digit relative to it; 0 for a number that nobody wrote."""

    value: float
    error: float = 0.0


class WrittenClaim(NamedTuple):
    """A printed figure: `unit` is `1` (a share of the peak), `FLOP/s` of a GPU, or `FLOP/token`."""

    number: WrittenNumber
    unit: str


def parse_count(text: str | float, name: str) -> WrittenNumber:
    """A count such as `8b`, `5,762` or `1e6`.

    Raises:
        UsageError: no positive number; the message names the option.
    """
    if not isinstance(text, str):
        return _require_positive(WrittenNumber(float(text)), str(text), name)
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{name}: {text!r} is not a number: expected one such as 5762, 8b or 1.5M")
    return _require_positive(_scale(match, _FACTORS[match["suffix"].lower()]), text, name)


def parse_seconds(text: str | float, name: str) -> WrittenNumber:
    """A time such as `560ms` or `13.5h`. Raises what `parse_count` does."""
    if not isinstance(text, str):
        return _require_positive(WrittenNumber(float(text)), str(text), name)
    match = _TIME.fullmatch(text.strip())
    if match is None or match["suffix"] not in _SECONDS:
        raise UsageError(f"{name}: {text!r} is not a time: expected one such as 560ms, 1.2s or 13.5h")
    return _require_positive(_scale(match, _SECONDS[match["suffix"]]), text, name)


def parse_flop_rate(text: str | float, name: str) -> WrittenNumber:
    """A peak such as `275TFLOP/s`. Raises what `parse_count` does."""
    if not isinstance(text, str):
        return _require_positive(WrittenNumber(float(text)), str(text), name)
    claim = _parse_flops(text)
    if claim is None or claim.unit != RATE:
        raise UsageError(f"{name}: {text!r} is not a rate: expected one such as 275TFLOP/s")
    return _require_positive(claim.number, text, name)


def parse_claim(text: str | float) -> WrittenClaim:
    """A printed figure: `41.2%`, `0.412`, `198TFLOP/s` or `57.9GFLOP`.

    Raises:
        UsageError: none of these, with examples.
    """
    if not isinstance(text, str):
        return WrittenClaim(WrittenNumber(float(text)), PERCENT)
    flops = _parse_flops(text)
    if flops is not None:
        return flops
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--claimed {text!r}: expected a figure such as 41.2%, 0.412, 198TFLOP/s or 57.9GFLOP a token")
    number = _require_positive(_scale(match, 0.01 if match["suffix"] else 1.0), text, "--claimed")
    if not match["suffix"] and number.value > 1:
        raise UsageError(f"--claimed {text!r} is above 1: write {text}% for a share of the peak, or {text}TFLOP/s")
    return WrittenClaim(number, PERCENT)


def _parse_flops(text: str) -> WrittenClaim | None:
    match = _FLOPS.fullmatch(text.strip())
    if match is None:
        return None
    unit = match["unit"]
    is_rate = "/s" in unit.lower() or unit.partition("/")[0] == "FLOPS"
    return WrittenClaim(_scale(match, _FACTORS[match["prefix"].lower()]), RATE if is_rate else COUNT)


def _scale(match: re.Match[str], factor: float) -> WrittenNumber:
    digits = match["digits"].replace(",", "").replace("_", "")
    value = float(digits + (match["exponent"] or ""))
    half = 0.5 * 10.0 ** -len(digits.partition(".")[2])
    return WrittenNumber(value * factor, half / float(digits) if float(digits) else 0.0)


def _require_positive(number: WrittenNumber, text: str, name: str) -> WrittenNumber:
    if not 0 < number.value < float("inf"):
        raise UsageError(f"{name}: {text!r}: expected a positive, finite number")
    return number
