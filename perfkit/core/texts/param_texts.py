"""The text of parameters, `depths=[2,2]:name="a:b"`: splits it, and reads lists in brackets and texts in quotes."""

import json
import re
from typing import Any, TypeVar

T = TypeVar("T")

_QUOTED = r"\"[^\"]*\"|'[^']*'"
# Words of a list, and those among them that JSON knows.
_WORD = re.compile(rf"{_QUOTED}|[^\[\],\s\"']+")
_JSON_WORD = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?|true|false|null")
# A quoted text that begins a value or an item of a list, or any other character.
_TOKEN = re.compile(r"""(?<=[=\[,\s])(?:"[^"]*"|'[^']*')|.""", re.DOTALL)


def split_params(text: str) -> list[str]:
    """Split at colons, but not within a list in brackets, nor within quotes where a value or an item begins.

    Raises:
        ValueError: a list does not end.
    """
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        if token == "[" and (depth or parts[-1].endswith("=")):
            depth += 1
        elif token == "]" and depth:
            depth -= 1
        if token == ":" and not depth:
            parts.append("")
        else:
            parts[-1] += token
    if depth:
        raise ValueError(f"malformed parameter {parts[-1]!r} in {text!r}: its list does not end; expected ]")
    return parts


def read_param_value(value: T) -> T | str | list[Any]:
    """`[2, 2]`, `[[1, 2], [3]]`, `[full_attention,sliding_attention]` and `['a:b']` as lists, `"2"` as the text 2, and
    other values as they are."""
    if not (isinstance(value, str) and value.startswith("[") and value.endswith("]")):
        return unquote(value)
    words = _WORD.sub(lambda word: word[0] if _JSON_WORD.fullmatch(word[0]) else json.dumps(unquote(word[0])), value)
    try:
        parsed: list[Any] = json.loads(words)
    except json.JSONDecodeError:
        return value  # who takes it says what it expected
    return parsed


def unquote(value: T) -> T | str:
    """A text in quotes without them; other values as they are."""
    return value[1:-1] if isinstance(value, str) and re.fullmatch(_QUOTED, value) else value
