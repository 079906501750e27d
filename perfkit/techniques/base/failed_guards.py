"""Reads what changed out of the guard that failed, in the words of torch 2.9 to 2.14."""

import re
from typing import NamedTuple

# `0/3: ` before a guard: the graph that it belongs to; and what follows it: the user's code.
_GRAPH_NUMBER = re.compile(r"^\S+/\d+: ")
_CODE_OF_GUARD = re.compile(r"\s+# ")
# What changes from one failure of a guard to the next.
_VALUES = re.compile(r"\. expected | == ")

_TENSOR = re.compile(r"tensor '(?P<argument>.+?)' (?P<what>size|stride|dtype|rank|dispatch key set|requires_grad)")
_SIZE = re.compile(r"size mismatch at index (?P<dimension>\d+)")
_EXPECTED = re.compile(r"expected (?P<before>\S+?),? (?:but )?(?:actual|got) (?P<after>\S+)")
_EQUAL = re.compile(r"(?P<argument>.+?) == (?P<before>.+)")
_LENGTH = re.compile(r"len\((?P<argument>.+)\)$")
_MOST_VALUES = 8


class FailedGuard(NamedTuple):
    """What changed: an argument or attribute, for a size its dimension, and what it was and became where known."""

    text: str
    argument: str = ""
    dimension: int | None = None
    values: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """Equal for guards of which only the value differs."""
        return _VALUES.split(self.text)[0]


def read_guard(reason: str) -> FailedGuard:
    """Read the first guard of a reason: `0/0: k == 1      # def f(x, k): ...` is about `k`, which was 1."""
    first = reason.strip().splitlines()[0] if reason.strip() else ""
    text = _CODE_OF_GUARD.split(_GRAPH_NUMBER.sub("", first))[0].strip()
    tensor, size = _TENSOR.search(text), _SIZE.search(text)
    changed = _EXPECTED.search(text)
    values = () if changed is None else (changed["before"].rstrip(","), changed["after"].rstrip(",."))
    if tensor is not None:
        return FailedGuard(text, tensor["argument"], None if size is None else int(size["dimension"]), values)
    equal = _EQUAL.fullmatch(text)
    if equal is None:
        return FailedGuard(text)
    length = _LENGTH.match(equal["argument"])
    return FailedGuard(
        text, equal["argument"] if length is None else f"len({length['argument']})", None, (equal["before"],)
    )


def join_values(guards: list[FailedGuard]) -> tuple[str, ...]:
    """The values of failures of one guard, in order and each once; the first of many."""
    return tuple(dict.fromkeys(value for guard in guards for value in guard.values))[:_MOST_VALUES]
