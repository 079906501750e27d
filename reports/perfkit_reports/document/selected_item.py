"""The facts that a page shows of something chosen in one of its tables or figures."""

from dataclasses import dataclass

from perfkit_reports.document.cells import Cell


@dataclass(frozen=True)
class SelectedItem:
    """One `part` of what `key` names wherever it stands (`perfkit_reports.selection`); without a part what is known of
    all together. `owner` says whose it is where there are several traces.

    `name` is whole, and as it was `recorded` where that differs; `work` the kind of work with its colour. `of` are
    names and keys of what it belongs to: a kernel's op, an op's module. All of a `kind` have the same facts, in the
    same order.
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
