"""Tables and lists as most subjects have them, left out where they would be empty."""

from collections.abc import Iterable, Sequence
from typing import Any

from perfkit_reports.document.blocks import Table, Text
from perfkit_reports.document.tables import Column

SHORT = 40  # rows


def make_table(
    name: str, title: str, columns: Sequence[Column[Any]], rows: Sequence[Any], what: str, **rest: Any
) -> tuple[Table, ...]:
    """A table of the first `SHORT` rows; none without rows. Raw rows are under the name before the first dash."""
    given = {"data": name.split("-")[0], "limit": SHORT, **rest}
    return (Table(id=name, title=title, columns=columns, rows=rows, what=what, **given),) if rows else ()


def make_list(name: str, lines: Iterable[str], title: str = "", **rest: Any) -> tuple[Text, ...]:
    """Sentences in a list; none without lines."""
    texts = tuple(lines)
    return (Text(**{"id": name, "title": title, "lines": texts, "style": "list", **rest}),) if texts else ()
