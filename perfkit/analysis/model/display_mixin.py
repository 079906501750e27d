"""Results that show themselves where Python is at hand: pandas frames, a notebook's summary, a page."""

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from perfkit.files import write_bytes

if TYPE_CHECKING:
    import pandas as pd


class DisplayMixin:
    """A result of which `perfkit_reports.subjects.<subject>` makes a document.

    The reports stand above this package and need pyarrow, pandas and matplotlib, so they are found by name and only
    when asked for.
    """

    __slots__ = ()
    subject: ClassVar[str]

    def frame(self, name: str) -> "pd.DataFrame":
        """One table of the report with every row, typed: those of `tables/*.parquet`, in SI base units.

        `attrs["units"]` has the unit of each column that has one. Raises `KeyError`, which names the tables that there
        are, for any other name.
        """
        rows: pd.DataFrame = resolve_name("perfkit_reports.render.frames:build_frame")(self._build_document(), name)
        return rows

    def to_html(self, path: str | Path) -> Path:
        """Write the report as one page that opens without a network; returns its path."""
        page: str = resolve_name("perfkit_reports.render.html:render")(self._build_document())
        write_bytes(Path(path), page.encode())
        return Path(path)

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        text: str = resolve_name("perfkit_reports.render.notebook:render")(self._build_document())
        return text

    def _build_document(self) -> Any:
        return resolve_name(f"perfkit_reports.subjects.{self.subject}.document:build_document")(self)
