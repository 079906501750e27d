"""The summary of a profile, which `summary()` returns: the text for a terminal, and the figures for a notebook."""

import html
from dataclasses import dataclass
from pathlib import Path

from perfkit.attach.host.run_report import run_report_command
from perfkit.store.layout import NOTEBOOK_FILE, RECORD_FILE, SUITE_FILE


@dataclass(frozen=True)
class RunSummary:
    """The summary of a run. A notebook shows `page`, everything else `text`."""

    text: str
    page: str

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        """A fragment that needs nothing from elsewhere and runs no script: Jupyter, VS Code and Colab all show it."""
        return self.page


def build_summary(folder: Path) -> RunSummary:
    """Build the summary of the run in `folder`, writing its report in a separate process.

    Where nothing was recorded, or no report can be drawn, the summary says so.
    """
    if not _has_records(folder):
        return _make_message(f"Nothing has been recorded in {folder} yet: no step of the loop has ended.")
    process = run_report_command(folder, "--notebook")
    if process.returncode:
        return _make_message(f"Could not write a report of {folder}: {process.stderr.strip()}")
    return RunSummary(text=process.stdout.strip(), page=(folder / NOTEBOOK_FILE).read_text(encoding="utf-8"))


def _has_records(folder: Path) -> bool:
    """True if a step of the loop was seen."""
    suite = folder / SUITE_FILE
    return suite.is_file() and suite.stat().st_size > 0 and any(folder.glob(f"*/0/rank*/{RECORD_FILE}"))


def _make_message(text: str) -> RunSummary:
    return RunSummary(text=text, page=f"<p>{html.escape(text)}</p>")
