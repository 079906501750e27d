"""Formats sentences, plurals, bounds and signed times."""

import re

from perfkit.core import units

_PLAIN = re.compile(r"[a-z]+(?:[-'][a-z]+)*(?=[\s,;.]|:\s|$)")  # not `aten::mm`, `cudaMalloc` or `bn_fw`


def format_sentence(text: str) -> str:
    """Capitalize the first word unless it is an identifier, and end with a full stop."""
    stripped = text.strip().rstrip(".")
    begun = stripped[:1].upper() + stripped[1:] if _PLAIN.match(stripped) else stripped
    return f"{begun}." if begun else ""


def format_plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_bounded(text: str, bound: str) -> str:
    """A figure with its bound, if it is only a bound: `at least 16.5 %`."""
    return f"{bound} {text}" if bound else text


def format_signed_seconds(value: float) -> str:
    return f"{'+' if value > 0 else ''}{units.format_seconds(value)}"
