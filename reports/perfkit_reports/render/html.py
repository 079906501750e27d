"""Renders a document as one self-contained page with embedded plotly.js."""

import json
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from perfkit_reports import findings
from perfkit_reports.charts import time_bars
from perfkit_reports.document.blocks import Bars, Block, Chart, Choice, Figure, Flame, Table, Timeline, walk_blocks
from perfkit_reports.document.document import Document
from perfkit_reports.document.raw import encode_json
from perfkit_reports.document.tables import Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.palette import LESS, MORE
from perfkit_reports.render.flame_sheet import build_flame_legend, build_flame_sheet
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.render.markdown import format_finding
from perfkit_reports.render.page import (
    PATTERNS,
    POLICY,
    SYMBOLS,
    compress_plotly,
    embed_json,
    get_templates,
    read_script,
    read_template,
)
from perfkit_reports.render.selection_sheet import build_selection_sheet
from perfkit_reports.render.timeline_sheet import SCRIPTS, build_timeline_sheet

# Scripts of the selection drawer are inserted between these.
_FIRST, _LAST = ("unfold.js", "theme.js", "selection.js", "report.js"), ("drawer.js",)
_BY_BLOCK: dict[type[Block], tuple[str, ...]] = {Flame: ("flame.js",), Timeline: SCRIPTS}
_TABS = 40  # maximum characters of a choice with buttons; longer ones are drop-down lists


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
            saved=embed_json(encode_json(document.raw[document.saves]).decode()) if document.saves else "",
        )
    )


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

    def encode_figures(self) -> Markup:
        return embed_json(_encode_json(self._figures))

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

    def add_chart(self, block: Chart | Bars) -> Chart:
        """Embed the figure of a chart or of bars, and return it as a chart."""
        chart = time_bars.build_chart(block)
        self._figures[chart.id] = chart.figure
        return chart

    def add_flame(self, block: Flame) -> list[tuple[str, list[str]]]:
        """Embed the trees, and return (key, values) of the choices."""
        self._flames[block.id] = build_flame_sheet(block)
        every = zip(block.keys, zip(*block.trees, strict=True), strict=True)
        return [(key, list(dict.fromkeys(values))) for key, values in every]

    @staticmethod
    def build_legend(block: Flame) -> list[tuple[str, str]]:
        return build_flame_legend(block)

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
