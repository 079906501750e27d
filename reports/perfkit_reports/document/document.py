"""A report before it has a format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perfkit.note import Note
from perfkit.spec import Struct
from perfkit_reports.document.blocks import Block, Section, Tile
from perfkit_reports.document.cases import VerdictSuite
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import RawTable


@dataclass(frozen=True)
class Document:
    """What an analysis says: `sections` in the order of reading, `data` with every raw row behind them.

    `kind` is what it is about (`trace`), `eyebrow` the small line above the headline, `lead` the sentences below it,
    `verdict` the word that it comes to, `warnings` what to know before relying on it. `raw` are the structs
    whose JSON is written beside it, by file; a page holds the one that it `saves`. `suites` are verdicts of a check.
    `chosen` tells of everything in its tables and figures that has a key; only a page calls it.
    """

    kind: str
    title: str
    headline: str
    perfkit: str
    created_at: str
    sections: tuple[Section, ...]
    eyebrow: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    verdict: Cell | None = None
    tiles: tuple[Tile, ...] = ()
    summary: tuple[Block, ...] = ()
    warnings: tuple[Note, ...] = ()
    data: tuple[RawTable, ...] = ()
    raw: Mapping[str, Struct] = field(default_factory=dict)
    saves: str = ""
    suites: tuple[VerdictSuite, ...] = ()
    chosen: Callable[[], Sequence[SelectedItem]] = tuple

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Those of the summary and of all sections, in the order of reading."""
        return (*self.summary, *(block for section in self.sections for block in section.blocks))
