"""The rows that a format without unfolding leaves out, and the words for it."""

from collections.abc import Sequence
from typing import Any

from perfkit_reports.document.blocks import Choice, Table
from perfkit_reports.wording import format_plural


def truncate_rows(table: Table, most: int) -> tuple[Sequence[Any], str]:
    """The rows of a table that a format with room for `most` ranked ones shows, and what is said of the others.

    A table without a limit is no ranking: all of its rows are shown.
    """
    kept = len(table.rows) if table.limit is None else min(table.limit, most)
    left_out = len(table.rows) - kept
    if left_out <= 0:
        return table.rows, ""
    return table.rows[:kept], format_plural(left_out, f"more {table.what}", f"more {table.whats or table.what + 's'}")


def describe_other_options(choice: Choice) -> str:
    """`The report also has: ops, modules`: what can be chosen besides the first, by each key."""
    first = next(iter(choice.options), ())
    names = [list(dict.fromkeys(values[place] for values in choice.options)) for place in range(len(first))]
    rest = [name for values in names for name in values[1:]]
    return f"The report also has: {', '.join(rest)}." if rest else ""
