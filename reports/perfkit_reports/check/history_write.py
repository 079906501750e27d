"""Writes every form of a history into a folder."""

from collections.abc import Iterator
from pathlib import Path

from perfkit.check.history.result import HISTORY_FILE, History
from perfkit.store.summary import REPORT_FILE
from perfkit_reports.write import as_json, written


def write_history(history: History, folder: Path) -> list[Path]:
    """Write `report.html` and `history.json`, each whole or not at all. Returns their paths."""
    return written(_files(history), folder)


def _files(history: History) -> Iterator[tuple[str, bytes]]:
    from perfkit_reports.check import history_html

    yield REPORT_FILE, history_html.render(history).encode()
    yield HISTORY_FILE, as_json(history)
