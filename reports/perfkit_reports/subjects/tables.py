"""Builds tables and lists, omitted if empty."""

from collections.abc import Iterable, Sequence
from typing import Any

from perfkit.core.note import Note
from perfkit_reports.document.blocks import Table, Text
from perfkit_reports.document.tables import Column

SHORT = 40  # rows


def make_table(
    name: str, title: str, columns: Sequence[Column[Any]], rows: Sequence[Any], what: str, **rest: Any
) -> tuple[Table, ...]:
    """A table of the first `SHORT` rows; none without rows. Raw data is named by the id up to its first dash."""
    options = {"data": name.split("-")[0], "limit": SHORT, **rest}
    return (Table(id=name, title=title, columns=columns, rows=rows, what=what, **options),) if rows else ()


def make_list(name: str, lines: Iterable[str | Note], title: str = "", **rest: Any) -> tuple[Text, ...]:
    """Sentences in a list; none without lines."""
    items = tuple(lines)
    ids = tuple(item.id if isinstance(item, Note) else "" for item in items)
    texts = {"lines": tuple(map(str, items)), "note_ids": ids if any(ids) else ()}
    return (Text(**{"id": name, "title": title, "style": "list", **texts, **rest}),) if items else ()
