"""Ends JSON that was cut off after its last whole record."""

import re

_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
_CLOSERS = {b"[": b"]", b"{": b"}"}


def end_cut_json(text: bytes) -> tuple[bytes, int]:
    """Whole JSON up to the last object within a list, and how many bytes of `text` that is; 0 if there is none.

    What is whole already is returned as it is.
    """
    open_ones: list[bytes] = []
    end, closers = 0, b""
    for token in _TOKENS.finditer(text):
        kind = token[0]
        if kind in _CLOSERS:
            open_ones.append(kind)
        elif kind in (b"]", b"}"):
            if not open_ones or _CLOSERS[open_ones.pop()] != kind:
                break
            if not open_ones:
                return text, len(text)
            if kind == b"}" and open_ones[-1] == b"[":
                end, closers = token.end(), b"".join(_CLOSERS[each] for each in reversed(open_ones))
    return text[:end] + closers, end
