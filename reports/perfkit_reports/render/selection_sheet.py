"""Encodes the facts of all selectable items of a page as one JSON sheet with deduplicated texts."""

from collections.abc import Sequence
from typing import Any

from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem


def build_selection_sheet(chosen: Sequence[SelectedItem]) -> dict[str, Any]:
    """`items` by key, each with one row per part: part, owner, cells, owners' keys.

    Numbers index `texts`. A cell is a text, or a text and its second line. `kinds` are the titles of the facts of each
    kind; those of whole items are under `all`, with values in an item's `totals`.
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
        owners = [[texts.place(cells), texts.place(key)] for cells, key in one.of]
        row = [one.part, texts.place(one.owner), [texts.place_cell(cell) for _, cell in one.facts], owners]
        items.setdefault(one.key, made)["rows" if one.part else "totals"].append(row)
    return {"kinds": kinds, "items": items, "texts": texts.every}


class _TextTable:
    """Deduplicated texts by index."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    @property
    def every(self) -> list[str]:
        return list(self._places)

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def place_cell(self, cell: Cell) -> int | list[int]:
        cell_text, more = cell.whole or cell.text, cell.detail if cell.known else cell.reason
        return [self.place(cell_text), self.place(more)] if more else self.place(cell_text)
