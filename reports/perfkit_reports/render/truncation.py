"""Truncates tables and choices for formats without unfolding, and says what is left out."""

from collections.abc import Sequence
from typing import Any

from perfkit_reports.document.blocks import Choice, Table
from perfkit_reports.wording import format_plural


def truncate_rows(table: Table, most: int) -> tuple[Sequence[Any], str]:
    """The first `most` rows of a ranked table, and a phrase for the rest.

    A table without a limit is not ranked: all rows are shown.
    """
    first_rows = len(table.rows) if table.limit is None else min(table.limit, most)
    left_out = len(table.rows) - first_rows
    if left_out <= 0:
        return table.rows, ""
    return table.rows[:first_rows], format_plural(
        left_out, f"more {table.what}", f"more {table.whats or table.what + 's'}"
    )


def describe_other_options(choice: Choice) -> str:
    """`Also in the report: ops, modules`: the other values of each key."""
    first = next(iter(choice.options), ())
    names = [list(dict.fromkeys(values[place] for values in choice.options)) for place in range(len(first))]
    others = [name for values in names for name in values[1:]]
    return f"Also in the report: {', '.join(others)}." if others else ""
