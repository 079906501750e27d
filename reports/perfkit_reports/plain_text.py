"""Flattens text to one line of harmless characters, for line-based machine-readable output."""

from perfkit.core.sanitize import escape_control_chars


def flatten_text(text: str) -> str:
    """`text` with white space collapsed to single spaces and unprintable characters escaped."""
    return escape_control_chars(" ".join(text.split()))
