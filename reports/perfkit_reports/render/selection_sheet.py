"""The facts of everything on a page that can be chosen, as one sheet of JSON in which each text stands once."""

from collections.abc import Sequence
from typing import Any

from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem


def build_selection_sheet(chosen: Sequence[SelectedItem]) -> dict[str, Any]:
    """`items` by the key of a name, each with a row for every part of it: part, owner, cells, and what it is of.

    Numbers are places among the `texts`. A cell is a text, or a text and its second line. `kinds` are the titles of
    the facts of each kind, those of a whole name under `all`: these are an item's `totals`.
    """
    texts = _TextTable()
    kinds: dict[str, list[int]] = {}
    items: dict[str, dict[str, Any]] = {}
    for one in chosen:
        kinds.setdefault(one.kind if one.part else "all", [texts.place(title) for title, _ in one.facts])
        made = {"name": texts.place(one.name), "kind": one.kind, "rows": [], "totals": []}
        if one.work:
            made["work"] = [*map(texts.place, one.work)]
        if one.recorded:
            made["recorded"] = texts.place(one.recorded)
        of = [[texts.place(said), texts.place(key)] for said, key in one.of]
        row = [one.part, texts.place(one.owner), [texts.place_cell(cell) for _, cell in one.facts], of]
        items.setdefault(one.key, made)["rows" if one.part else "totals"].append(row)
    return {"kinds": kinds, "items": items, "texts": texts.every}


class _TextTable:
    """Texts by the places in which they first stood."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def every(self) -> list[str]:
        return list(self._places)

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def place_cell(self, cell: Cell) -> int | list[int]:
        shown, more = cell.whole or cell.text, cell.detail if cell.known else cell.reason
        return [self.place(shown), self.place(more)] if more else self.place(shown)
