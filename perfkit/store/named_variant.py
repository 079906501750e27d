"""Splits `FOLDER@VARIANT`, where both may hold an `@`: `zero3@2` is a variant on two ranks."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.core.urls import is_url

AT = "@"


def list_splits(named: str) -> Iterator[tuple[str, str]]:
    """Each folder and variant that a name may stand for, the longest folder first."""
    for place in range(len(named) - 1, 0, -1):
        if named[place] == AT:
            yield named[:place], named[place + 1 :]


def split_variant(named: str) -> tuple[str, str]:
    """The path and the variant of a name, which is "" where none is named or no such path exists."""
    if is_url(named) or Path(named).exists():
        return named, ""
    return next(((folder, variant) for folder, variant in list_splits(named) if Path(folder).exists()), (named, ""))
