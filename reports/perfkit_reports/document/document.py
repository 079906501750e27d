"""A report, independent of its format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit_reports.document.blocks import Block, Section, Tile
from perfkit_reports.document.cases import VerdictSuite
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import RawTable


@dataclass(frozen=True)
class Document:
    """The content of a report: `sections` in reading order, `data` with all raw rows.

    `kind` is the kind of subject (`trace`), `eyebrow` the small line above the headline, `lead` the sentences below
    it, `verdict` the result in a word, `badges` small figures beside the eyebrow, `first` the blocks between lead
    and tiles (a bar of time, fixes), `warnings` the caveats. `raw` are structs written as JSON files, the result
    itself first; a page embeds the one named `saves`. `suites` are verdicts of a check. `chosen` returns the facts
    of everything selectable; only pages call it.
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
    badges: tuple[Tile, ...] = ()
    first: tuple[Block, ...] = ()
    tiles: tuple[Tile, ...] = ()
    summary: tuple[Block, ...] = ()
    warnings: tuple[Note, ...] = ()
    data: tuple[RawTable, ...] = ()
    raw: Mapping[str, Struct] = field(default_factory=dict)
    saves: str = ""
    suites: tuple[VerdictSuite, ...] = ()
    chosen: Callable[[], Sequence[SelectedItem]] = tuple

    @property
    def result(self) -> Struct:
        """The result that the report shows."""
        return next(iter(self.raw.values()))

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Blocks of the first screen, of the summary and of all sections, in reading order."""
        return (*self.first, *self.summary, *(block for section in self.sections for block in section.blocks))
