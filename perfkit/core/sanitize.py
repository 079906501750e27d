"""Sanitizes text of other people's files of what acts on those who read it: terminals obey control characters, and
marks of direction show a name in another order than its own (CVE-2021-42574)."""

import re

# Control characters but for white space, line ends that only some programs know, marks of direction, halves of
# surrogate pairs and the two non-characters, which neither UTF-8 nor XML has.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escape_control_chars(text: str) -> str:
    r"""`text` with an escape in place of each harmful character: `\x1b`, `\u202e`. Tabs and line feeds stay."""
    return _HARMFUL.sub(_escape_match, text)


def _escape_match(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
