"""One choice for a whole page."""

from dataclasses import dataclass

from perfkit_reports.document.blocks import Block


@dataclass(frozen=True, kw_only=True)
class Pick(Block):
    """Sets every choice of a page whose title is `key` to one of `values`, and a timeline to the first step of it.

    Only a page has it; other formats show everything. `label` is its own title.
    """

    key: str
    label: str
    values: tuple[str, ...]
