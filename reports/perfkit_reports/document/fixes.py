"""The fixes on the first screen of a report."""

from dataclasses import dataclass

from perfkit_reports.document.blocks import Block
from perfkit_reports.document.cells import Cell


@dataclass(frozen=True)
class Fix:
    """A row: what to do in a few words, what it saves, how to do it, and how sure the saving is (`simulated`).

    `owner` names what it is about where there are several, `anchor` is that of its finding on the page.
    """

    instruction: str
    saves: Cell
    how: str
    confidence: str
    owner: str = ""
    anchor: str = ""


@dataclass(frozen=True, kw_only=True)
class Fixes(Block):
    """The most valuable fixes first; pages only, since other formats show the findings there.

    `caption` has what all of them save together, `nothing` the text without any.
    """

    items: tuple[Fix, ...]
    caption: str = ""
    nothing: str = "No finding has a known gain."
