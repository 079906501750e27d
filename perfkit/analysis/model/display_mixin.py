"""Results that show themselves in Python: a short repr, pandas frames, a notebook's summary, a page, a report."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from perfkit.store.summary import REPORT_FILE

if TYPE_CHECKING:
    import pandas as pd


class DisplayMixin:
    """A result of which `perfkit_reports.subjects.<subject>` makes a document; named before `Struct` in bases."""

    __slots__ = ()
    subject: ClassVar[str]

    def __repr__(self) -> str:
        """At most ten lines: the kind, the headline, the key figures, and the attributes with the rest."""
        text: str = _load_display().describe_result(self)
        return text

    def frame(self, name: str) -> "pd.DataFrame":
        """One table of the report with every row, typed: those of `tables/*.parquet`, in SI base units.

        `attrs["units"]` has the unit of each column that has one. Raises `KeyError`, which names the tables that there
        are, for any other name.
        """
        rows: pd.DataFrame = _load_display().build_frame(self, name)
        return rows

    def to_html(self, path: str | Path = REPORT_FILE) -> Path:
        """Write the report as one page that opens without a network; returns its path."""
        page: Path = _load_display().write_page(self, Path(path))
        return page

    def save(self, folder: str | Path) -> Path:
        """Write the report as the command does: page, JSON, Markdown, tables. Returns the folder.

        `perfkit.analyze(folder)` and `perfkit report` read it again. An earlier report of the same kind is replaced; a
        folder with anything else in it is a `UsageError`.
        """
        saved: Path = _load_display().save_report(self, Path(folder))
        return saved

    def _repr_html_(self) -> str:
        """The notebook rendering."""
        text: str = _load_display().render_notebook(self)
        return text


def _load_display() -> Any:
    """The functions that show results. They stand above this package, so that it is the only place to name them."""
    return importlib.import_module("perfkit_reports.subjects.display")
