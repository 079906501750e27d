"""Results that show themselves in Python: a short repr, pandas frames, a notebook's summary, a page, a report."""

from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from perfkit.core.errors import UsageError
from perfkit.core.files import write_bytes
from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import REPORT_FILE

if TYPE_CHECKING:
    import pandas as pd


class DisplayMixin:
    """A result of which `perfkit_reports.subjects.<subject>` makes a document; named before `Struct` among the bases.

    The reports stand above this package and need pyarrow, pandas and matplotlib, so they are found by name and only
    when asked for.
    """

    __slots__ = ()
    subject: ClassVar[str]

    def __repr__(self) -> str:
        """At most ten lines: the kind, the headline, the key figures, and the attributes with the rest."""
        findings = getattr(self, "findings", None)
        text: str = resolve_name("perfkit_reports.render.repr_text:render")(
            self._build_document(), type(self).__name__, findings
        )
        return text

    def frame(self, name: str) -> "pd.DataFrame":
        """One table of the report with every row, typed: those of `tables/*.parquet`, in SI base units.

        `attrs["units"]` has the unit of each column that has one. Raises `KeyError`, which names the tables that there
        are, for any other name.
        """
        rows: pd.DataFrame = resolve_name("perfkit_reports.render.frames:build_frame")(self._build_document(), name)
        return rows

    def to_html(self, path: str | Path = REPORT_FILE) -> Path:
        """Write the report as one page that opens without a network; returns its path."""
        page: str = resolve_name("perfkit_reports.render.html:render")(self._build_document())
        write_bytes(Path(path), page.encode())
        return Path(path)

    def save(self, folder: str | Path) -> Path:
        """Write the report as the command does: page, JSON, Markdown, tables. Returns the folder.

        `perfkit.analyze(folder)` and `perfkit report` read it again. An earlier report of the same kind is replaced; a
        folder with anything else in it is a `UsageError`.
        """
        path, document = Path(folder), self._build_document()
        markers = (next(iter(document.raw)), *([SUITE_FILE] if self.subject == "suite" else []))
        occupied = path.exists() and (not path.is_dir() or any(path.iterdir()))
        if occupied and not any((path / marker).is_file() for marker in markers):
            raise UsageError(
                f"{path} exists and contains no report of this kind: name another folder", id="usage.occupied"
            )
        resolve_name("perfkit_reports.render.report_files:write_report")(document, path)
        return path

    def _repr_html_(self) -> str:
        """The notebook rendering."""
        text: str = resolve_name("perfkit_reports.render.notebook:render")(self._build_document())
        return text

    def _build_document(self) -> Any:
        return resolve_name(f"perfkit_reports.subjects.{self.subject}.{self.subject}_document:build_document")(self)
