"""The facts that a page shows about an item selected in a table or figure."""

from dataclasses import dataclass

from perfkit_reports.document.cells import Cell


@dataclass(frozen=True)
class SelectedItem:
    """One `part` of the item that `key` names (`perfkit_reports.selection`); without a part, the whole item.

    `owner` names its trace, if there are several.

    `name` is not shortened, `recorded` the recorded name if different, `work` the kind of work with its color. `of` are
    names and keys of its owners: a kernel's op, an op's module. All items of a `kind` have the same facts in the same
    order.
    """

    key: str
    part: str
    kind: str
    name: str
    facts: tuple[tuple[str, Cell], ...]
    recorded: str = ""
    owner: str = ""
    work: tuple[str, str] | None = None
    of: tuple[tuple[str, str], ...] = ()
