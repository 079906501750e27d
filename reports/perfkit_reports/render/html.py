"""Renders a document as one self-contained page with embedded plotly.js."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from markupsafe import Markup

from perfkit.analysis.model.timeline import COLLECTIVES, PYTHON, STREAM, StepTimeline
from perfkit.analysis.timeline.column_packing import unpack_column
from perfkit.analysis.timeline.step_packing import pack_step
from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars, Block, Chart, Choice, Figure, Flame, Table, Timeline, walk_blocks
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.raw import encode_json
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_kernel
from perfkit_reports.palette import LESS, MORE
from perfkit_reports.render.bar_sheet import BarSheet, build_bar_sheet
from perfkit_reports.render.flame_sheet import build_flame_legend, build_flame_sheet
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.render.markdown import format_finding
from perfkit_reports.render.page import (
    PATTERNS,
    POLICY,
    SYMBOLS,
    compress_data,
    compress_plotly,
    embed_json,
    get_templates,
    read_script,
    read_template,
)
from perfkit_reports.selection import is_shortened, make_key

SCRIPTS = tuple(
    f"timeline/{name}.js" for name in ("data", "tracks", "drawing", "range", "pointers", "about", "walk", "timeline")
)

_OF_KERNELS = (STREAM, COLLECTIVES)
_FRAME = re.compile(r"(?P<file>[^()]*)\((?P<line>\d+)\): (?P<function>.+)")
_SHORT = 48  # maximum characters in a slice


def build_timeline_sheet(block: Timeline) -> dict[str, Any]:
    """Plain data for `templates/timeline/`; full names are kept for search and selection."""
    return {
        "steps": [compress_data(pack_step(step)) for step in block.steps.values()],
        "commands": [block.commands.get(name, "") for name in block.steps],
        "keys": {
            text: make_key("", text)[1:] for step in block.steps.values() for text in step.texts if is_shortened(text)
        },
        "kinds": [(kind, color, pattern) for kind, (_, color, pattern) in block.looks.items()],
        "short": {
            name: short for step in block.steps.values() for name, short in _shorten_names(step) if short != name
        },
    }


def _shorten_names(step: StepTimeline) -> Iterator[tuple[str, str]]:
    """Names for slices: kernels without types, Python frames with the function first."""
    name, kind = unpack_column(step.labels.name).tolist(), unpack_column(step.labels.kind).tolist()
    kernels = {label for lane in step.lanes if lane.kind in _OF_KERNELS for label in unpack_column(lane.label).tolist()}
    for label, (named, count) in enumerate(zip(name, kind, strict=True)):
        text = step.texts[named]
        if step.texts[count] == PYTHON:
            frame = _FRAME.fullmatch(text)
            yield text, text if frame is None else f"{frame['function']} {frame['file']}:{frame['line']}"
        elif label in kernels:
            yield text, shorten_kernel(text, _SHORT)


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


# Scripts of the selection drawer are inserted between these.
_FIRST, _LAST = ("unfold.js", "theme.js", "selection.js", "report.js"), ("drawer.js",)
_BY_BLOCK: dict[type[Block], tuple[str, ...]] = {Flame: ("flame.js",), Timeline: SCRIPTS}
_SAVED_ROOM = 300_000  # characters of a page: a larger JSON file is only next to it
_TABS = 56  # maximum characters of a choice with buttons; longer ones are drop-down lists


def render(document: Document) -> str:
    """The whole page. All content is escaped; opening it fetches nothing."""
    sheet = _Sheet()
    return (
        get_templates()
        .get_template("document.html.j2")
        .render(
            document=document,
            sheet=sheet,
            notes=Footnotes(),
            findings=findings,
            markdown=format_finding,
            patterns=PATTERNS,
            symbols=SYMBOLS,
            DETAIL=Weight.DETAIL,
            policy=POLICY,
            style=Markup(read_template("style.css")),
            script=Markup("".join(map(read_script, _list_scripts(document)))),
            plotly=Markup(compress_plotly()),
            saved=_compress_saved(document),
        )
    )


def _compress_saved(document: Document) -> str:
    """The JSON that a page can save; empty without any, and where it would be a large part of the page."""
    saved = compress_data(encode_json(document.raw[document.saves])) if document.saves else ""
    return saved if len(saved) <= _SAVED_ROOM else ""


def _list_scripts(document: Document) -> tuple[str, ...]:
    """Scripts in dependency order, only those for the page's kinds of blocks."""
    kinds = set(map(type, walk_blocks(document.blocks)))
    return (*_FIRST, *(script for kind, scripts in _BY_BLOCK.items() if kind in kinds for script in scripts), *_LAST)


class _Sheet:
    """Data collected from blocks during rendering, and functions for the templates."""

    def __init__(self) -> None:
        self._figures: dict[str, Figure] = {}
        self._flames: dict[str, dict[str, Any]] = {}
        self.change = (MORE, LESS)
        self._timelines: dict[str, dict[str, Any]] = {}

    def compress_figures(self) -> str:
        return compress_data(_encode_json(self._figures).encode())

    @staticmethod
    def get_key_kind(chart: Chart) -> str:
        """What of the chart can be selected: `areas`, which have one key each, or `points`; "" where nothing can."""
        metas = [trace["meta"] for trace in chart.figure["data"] if trace.get("meta")]
        return "" if not metas else "areas" if any("key" in meta for meta in metas) else "points"

    def add_timeline(self, block: Timeline) -> Timeline:
        """Embed the timeline's steps, and return the block."""
        self._timelines[block.id] = build_timeline_sheet(block)
        return block

    def encode_timelines(self) -> Markup:
        """Encoded timelines; empty without any."""
        return embed_json(_encode_json(self._timelines)) if self._timelines else Markup("")

    @staticmethod
    def encode_chosen(document: Document) -> Markup:
        return embed_json(_encode_json(build_selection_sheet(document.chosen())))

    def add_chart(self, block: Chart) -> Chart:
        """Embed the figure of a chart, and return the chart."""
        self._figures[block.id] = block.figure
        return block

    @staticmethod
    def build_bars(block: Bars) -> BarSheet:
        return build_bar_sheet(block)

    def add_flame(self, block: Flame) -> list[tuple[str, list[str]]]:
        """Embed the trees, and return (key, values) of the choices."""
        self._flames[block.id] = build_flame_sheet(block)
        every = zip(block.keys, zip(*block.trees, strict=True), strict=True)
        return [(key, list(dict.fromkeys(values))) for key, values in every]

    @staticmethod
    def build_legend(block: Flame) -> list[tuple[str, str]]:
        return build_flame_legend(block)

    @staticmethod
    def build_timeline_legend(block: Timeline) -> list[tuple[str, str, str]]:
        """(names, color, pattern): kinds that look alike share an entry."""
        names: dict[tuple[str, str], dict[str, None]] = {}
        for name, color, pattern in block.looks.values():
            names.setdefault((color, pattern), {})[name] = None
        return [(", ".join(some), color, pattern) for (color, pattern), some in names.items()]

    def encode_flames(self) -> Markup:
        return embed_json(_encode_json(self._flames))

    @staticmethod
    def get_kind(block: Block) -> str:
        return type(block).__name__

    @staticmethod
    def list_columns(table: Table) -> list[Column[Any]]:
        return drop_empty_columns(table.columns, table.rows[: table.limit])

    @staticmethod
    def list_tables(choice: Choice) -> list[Table]:
        """The options, if all are tables."""
        tables = [option for option in choice.options.values() if isinstance(option, Table)]
        return tables if len(tables) == len(choice.options) else []

    def has_hidden_columns(self, tables: Sequence[Table]) -> bool:
        """True if any table has columns hidden on load."""
        return any(column.weight == Weight.DETAIL for table in tables for column in self.list_columns(table))

    @staticmethod
    def list_choosers(choice: Choice) -> list[tuple[str, list[str], bool]]:
        """(key, values, shown as buttons) of the choices."""
        every = zip(choice.keys, _list_values(choice), strict=True)
        return [(key, values, sum(map(len, values)) <= _TABS) for key, values in every]

    @staticmethod
    def list_panels(choice: Choice) -> list[tuple[str, Block]]:
        """(id, block) of the options; the id has the indexes of the key values."""
        every = _list_values(choice)
        return [
            (
                "-".join([choice.id, *(str(values.index(value)) for values, value in zip(every, option, strict=True))]),
                block,
            )
            for option, block in choice.options.items()
        ]


def _encode_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _list_values(choice: Choice) -> list[list[str]]:
    """Values of each key, in order."""
    return [list(dict.fromkeys(values[place] for values in choice.options)) for place in range(len(choice.keys))]
