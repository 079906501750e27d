"""Keeps answers short: a tool's answer is at most some thousands of tokens, and says what it left out."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

DEFAULT_TOKENS = 4000
LEFT_OUT = "left_out"

_CHARACTERS_PER_TOKEN = 3  # of JSON, on the safe side
_SHORTEST = 200  # characters of a text that is cut


def fit_answer(answer: dict[str, Any], max_tokens: int = DEFAULT_TOKENS) -> str:
    """An answer as JSON of at most `max_tokens`: the longest lists lose their last items, then texts their ends.

    `left_out` has the number of items that a list lost, by its path. Lists come most important first.
    """
    limit = max(max_tokens, 1) * _CHARACTERS_PER_TOKEN
    shortened = deepcopy(answer)
    dropped: dict[str, int] = {}
    while len(_encode(shortened, dropped)) > limit:
        path, longest = max(_walk_lists("", shortened), key=lambda item: _measure(item[1]), default=("", []))
        if len(longest) > 1:
            kept = len(longest) // 2
            dropped[path] = dropped.get(path, 0) + len(longest) - kept
            del longest[kept:]
        elif not _cut_longest_text(shortened):
            break
    return _encode(shortened, dropped)


def _encode(answer: dict[str, Any], dropped: dict[str, int]) -> str:
    return json.dumps({**answer, **({LEFT_OUT: dropped} if dropped else {})}, ensure_ascii=False, separators=(",", ":"))


def _walk_lists(path: str, value: Any) -> Iterator[tuple[str, list[Any]]]:
    """The lists of more than one item within a value, each with its path."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk_lists(f"{path}.{name}" if path else name, item)
    elif isinstance(value, list):
        if len(value) > 1:
            yield path, value
        for number, item in enumerate(value):
            yield from _walk_lists(f"{path}[{number}]", item)


def _measure(items: list[Any]) -> int:
    return len(json.dumps(items, ensure_ascii=False))


def _cut_longest_text(value: Any) -> bool:
    """Halve the longest text within a value; False if none is long."""
    long = [item for item in _walk_texts(value) if len(item[2]) >= _SHORTEST]
    if not long:
        return False
    holder, key, text = max(long, key=lambda item: len(item[2]))
    holder[key] = f"{text[: len(text) // 2]}…"
    return True


def _walk_texts(value: Any) -> Iterator[tuple[Any, Any, str]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str):
            yield value, key, item
        else:
            yield from _walk_texts(item)
