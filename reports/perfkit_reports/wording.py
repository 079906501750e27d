"""Fragments of text as sentences; counts and bounds in words."""

import re

from perfkit import units

_PLAIN = re.compile(r"[a-z]+(?:[-'][a-z]+)*(?=[\s,;.]|:\s|$)")  # not `aten::mm`, `cudaMalloc` or `bn_fw`


def format_sentence(text: str) -> str:
    """With a capital, where it begins with a word and not with a name of code, and a full stop."""
    stripped = text.strip().rstrip(".")
    begun = stripped[:1].upper() + stripped[1:] if _PLAIN.match(stripped) else stripped
    return f"{begun}." if begun else ""


def format_plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_bounded(text: str, bound: str) -> str:
    """A figure with the side on which the truth lies, where it is a bound only: `at least 16.5 %`."""
    return f"{bound} {text}" if bound else text


def format_signed_seconds(value: float) -> str:
    return f"{'+' if value > 0 else ''}{units.format_seconds(value)}"
