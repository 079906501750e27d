"""Fits tables to a terminal: selects columns and shortens names."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.table import Table as Drawn

from perfkit_reports.document.blocks import Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_middle
from perfkit_reports.render.safe_text import SafeText

TONES = {"good": "green", "bad": "red", "unsure": "yellow"}
_GAP = 2  # characters between columns
_LEAST = 12  # minimum characters of a shortened name
_NAME = 24  # characters of a row's name, allocated before other columns' details
_SHARED_NAME = 18  # characters of each of several names (of a kernel, of its op)
_LEAST_COLUMNS = 3  # of a table: below, rows are lines of text
_METER = 12  # maximum characters of a column's bar


def fit_table(table: Table, rows: Sequence[Any], width: int, *, one_line: bool = False) -> Drawn | None:
    """`rows` in at most `width` characters: the first and the brief columns, then others that fit.

    Names are shortened in the middle if necessary, numbers never: of brief columns that do not fit the last are left
    out, those of names after those of figures. A row is a line if `one_line`, with its details beside the texts. None
    if not even `_LEAST_COLUMNS` fit.
    """
    filled = drop_empty_columns(table.columns, rows)
    if one_line:
        filled = [
            replace(column, cell=_make_line_cell(column, detailed=_is_name(column, place)))
            for place, column in enumerate(filled)
        ]
    columns = _select_brief(filled)
    while len(columns) > _LEAST_COLUMNS and _lacks_room(_drop_details(columns, rows, width), rows, width):
        columns.pop(max(range(1, len(columns)), key=lambda place: (not columns[place].code, place)))
    for column in filled[1:]:
        if column.weight == Weight.NORMAL and _compute_needed_width([*columns, column], rows) <= width:
            columns.append(column)
    columns = _drop_details([column for column in filled if column in columns], rows, width)
    if one_line:
        columns = _add_details(columns, table.columns, rows, width)
    widths = _choose_widths(columns, rows, width)
    spare = width - sum(widths) - _GAP * len(widths)
    if spare < 0:
        return None
    grid = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column, room in zip(columns, widths, strict=True):
        bar = _METER + 1 if column.meter and spare > _METER else 0
        spare -= bar
        grid.add_column(
            SafeText(column.title), justify="right" if column.numeric else "left", width=room + bar, overflow="fold"
        )
    for row in rows:
        emphasis = table.emphasis is not None and table.emphasis(row)
        lines = [
            _format_line(column, column.cell(row), room, rows, drawn_width.width or room, one_line=one_line)
            for column, room, drawn_width in zip(columns, widths, grid.columns, strict=True)
        ]
        grid.add_row(*lines, style="bold" if emphasis else None)
    return grid


def _is_name(column: Column[Any], place: int) -> bool:
    return column.code or (not place and not column.numeric)


def _make_line_cell(column: Column[Any], *, detailed: bool) -> Callable[[Any], Cell]:
    """Its cells in one line: `aten::mm, h.*.mlp` and `1.62× (1.59–1.65×)` if `detailed`."""

    def make_line(row: Any) -> Cell:
        cell = column.cell(row)
        text = cell.text
        if detailed and cell.detail:
            text = f"{text} ({cell.detail})" if column.numeric else f"{text}, {cell.detail}"
        return replace(cell, text=" ".join(text.split()), detail="", whole=cell.whole if text == cell.text else "")

    return make_line


def _add_details(
    columns: Sequence[Column[Any]], originals: Sequence[Column[Any]], rows: Sequence[Any], width: int
) -> list[Column[Any]]:
    """The columns of one line, those that name nothing with their details where there is room for them."""
    filled = list(columns)
    for place, column in enumerate(columns):
        original = next(original for original in originals if original.title == column.title)
        detailed = replace(original, cell=_make_line_cell(original, detailed=True))
        trial = [*filled[:place], detailed, *filled[place + 1 :]]
        widths = _compute_least_widths(trial, rows)
        widths[place] = _measure_longest(detailed, [detailed.cell(row).text for row in rows], rows, "")
        if not _is_name(column, place) and sum(widths) + _GAP * len(widths) <= width:
            filled = trial
    return filled


def _lacks_room(columns: Sequence[Column[Any]], rows: Sequence[Any], width: int) -> bool:
    return sum(_compute_least_widths(columns, rows)) + _GAP * len(columns) > width


def format_row(table: Table, row: Any) -> str:
    """A row as text, if its table does not fit: `matmul, Time 8.00 ms (mean)`."""
    first, *others = _select_brief(drop_empty_columns(table.columns, [row]))
    cells = [("", first.cell(row)), *((f"{column.title} ", column.cell(row)) for column in others)]
    return ", ".join(f"{title}{_format_with_detail(cell)}" for title, cell in cells)


def _select_brief(columns: Sequence[Column[Any]]) -> list[Column[Any]]:
    """The first column, which names rows, and the brief ones."""
    return [*columns[:1], *(column for column in columns[1:] if column.weight == Weight.BRIEF)]


def _format_with_detail(cell: Cell) -> str:
    return f"{cell.text} ({cell.detail})" if cell.detail else cell.text


def _compute_needed_width(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> int:
    """Width of the table without shortened text."""
    return sum(_measure_longest(column, [column.cell(row).text for row in rows], rows) + _GAP for column in columns)


def _measure_longest(column: Column[Any], texts: Sequence[str], rows: Sequence[Any], title: str | None = None) -> int:
    details = [column.cell(row).detail for row in rows]
    told = (column.title if title is None else title, *texts, *details)
    return max(cell_len(line) for text in told for line in (text.splitlines() or [""]))


def _compute_least_width(column: Column[Any], rows: Sequence[Any], words: int = _LEAST) -> int:
    """Minimum width: titles break at spaces, words anywhere."""
    title = max(column.title.split(), key=cell_len, default="")
    needed = _measure_longest(column, [column.cell(row).text for row in rows], rows, title)
    return needed if column.numeric else min(needed, max(words, cell_len(title)))


def _compute_least_widths(columns: Sequence[Column[Any]], rows: Sequence[Any]) -> list[int]:
    """Minimum width of each column; those that name rows have more."""
    naming = [_is_name(column, place) for place, column in enumerate(columns)]
    room = _NAME if sum(naming) <= 1 else _SHARED_NAME
    return [
        _compute_least_width(column, rows, room if names else _LEAST)
        for column, names in zip(columns, naming, strict=True)
    ]


def _drop_details(columns: Sequence[Column[Any]], rows: Sequence[Any], width: int) -> list[Column[Any]]:
    """Drop second lines, the longest first, until the first lines fit."""
    cells = list(columns)
    while sum(_compute_least_widths(cells, rows)) + _GAP * len(cells) > width:
        bare = [replace(column, cell=_make_bare_cell(column)) for column in cells]
        won = [
            now - then
            for now, then in zip(_compute_least_widths(cells, rows), _compute_least_widths(bare, rows), strict=True)
        ]
        if not any(won):
            break
        place = won.index(max(won))
        cells[place] = bare[place]
    return cells


def _make_bare_cell(column: Column[Any]) -> Callable[[Any], Cell]:
    return lambda row: replace(column.cell(row), detail="")


def _choose_widths(columns: Sequence[Column[Any]], rows: Sequence[Any], width: int) -> list[int]:
    """Width of each column: its texts' width, less if there is no room, more for words if full names fit."""
    widths = [_measure_longest(column, [column.cell(row).text for row in rows], rows) for column in columns]
    least = _compute_least_widths(columns, rows)
    words = [place for place, column in enumerate(columns) if not column.numeric]
    for narrowed in (range(len(columns)), words):
        while sum(widths) + _GAP * len(widths) > width:
            shrinkable = [place for place in narrowed if widths[place] > least[place]]
            if not shrinkable:
                break
            widths[max(shrinkable, key=lambda place: widths[place] - least[place])] -= 1
        least = [min(room, _LEAST) for room in widths]
    for place in words:
        cells = [columns[place].cell(row) for row in rows]
        full_width = _measure_longest(columns[place], [cell.whole or cell.text for cell in cells], rows)
        if full_width > widths[place] and sum(widths) - widths[place] + full_width + _GAP * len(widths) <= width:
            widths[place] = full_width
    return widths


def _fold_name(text: str, room: int) -> str:
    """A variant's name broken before parameters, values and techniques."""
    if cell_len(text) <= room or " " in text:
        return text
    lines = [""]
    for part in re.split(r"(?<=[:=+])", text):
        if lines[-1] and cell_len(lines[-1] + part) > room:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def _shorten_signature(text: str, room: int) -> str:
    """`softmax_warp_forward` of `softmax_warp_forward<float, …>` where the arguments have no room."""
    name = text.partition("<")[0]
    return shorten_middle(name if name and cell_len(text) > room else text, room)


def _format_line(
    column: Column[Any], cell: Cell, room: int, rows: Sequence[Any], drawn_width: int, *, one_line: bool
) -> SafeText:
    """A cell with its detail on a second line (beside it if `one_line`), and a bar if there is room."""
    text = cell.whole if cell.whole and cell_len(cell.whole) <= room else cell.text
    line = SafeText()
    if one_line:
        shown = _shorten_signature(text, room) if column.code else shorten_middle(text, room)
    else:
        shown = shorten_middle(text, room) if column.code else _fold_name(text, room)
    if drawn_width > room and isinstance(cell.value, int | float):
        bar = "▆" * (max(1, round(_METER * cell.value / column.find_largest(rows))) if cell.value > 0 else 0)
        line.append(f"{bar:<{_METER}} ", style="blue")
        shown = f"{shown:>{room}}"
    line.append(shown, style=TONES.get(cell.tone, ""))
    if cell.detail:
        line.append(f"\n{shorten_middle(cell.detail, room) if column.code else cell.detail}", style="dim")
    return line
