"""Fragments of text as sentences."""

import re

_PLAIN = re.compile(r"[a-z]+(?:[-'][a-z]+)*(?=[\s,;.]|:\s|$)")  # not `aten::mm`, `cudaMalloc` or `bn_fw`


def sentence(text: str) -> str:
    """With a capital, where it begins with a word and not with a name of code, and a full stop."""
    stripped = text.strip().rstrip(".")
    begun = stripped[:1].upper() + stripped[1:] if _PLAIN.match(stripped) else stripped
    return f"{begun}." if begun else ""
