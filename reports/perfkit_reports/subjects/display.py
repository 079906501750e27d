"""Shows a result in Python: its repr, one of its tables, its page, its report. `DisplayMixin` has the methods."""

from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.core.errors import UsageError
from perfkit.core.files import write_bytes
from perfkit.store.layout import SUITE_FILE
from perfkit_reports.render import frames, html, notebook, report_files, repr_text
from perfkit_reports.subjects.registry import build_document

if TYPE_CHECKING:
    import pandas as pd


def describe_result(result: DisplayMixin) -> str:
    """At most ten lines: the kind, the headline, the key figures, and the attributes with the rest."""
    return repr_text.render(build_document(result), type(result).__name__, getattr(result, "findings", None))


def build_frame(result: DisplayMixin, name: str) -> "pd.DataFrame":
    """One table of the report with every row; a `KeyError` names the tables that there are."""
    return frames.build_frame(build_document(result), name)


def write_page(result: DisplayMixin, path: Path) -> Path:
    """Write the report as one page; returns its path."""
    write_bytes(path, html.render(build_document(result)).encode())
    return path


def render_notebook(result: DisplayMixin) -> str:
    """An HTML fragment without scripts."""
    return notebook.render(build_document(result))


def save_report(result: DisplayMixin, folder: Path) -> Path:
    """Write page, JSON, Markdown and tables; a `UsageError` for a folder that holds something else."""
    document = build_document(result)
    markers = (next(iter(document.raw)), *([SUITE_FILE] if result.subject == "suite" else []))
    occupied = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if occupied and not any((folder / marker).is_file() for marker in markers):
        raise UsageError(
            f"{folder} exists and contains no report of this kind: name another folder", id="usage.occupied"
        )
    report_files.write_report(document, folder)
    return folder
