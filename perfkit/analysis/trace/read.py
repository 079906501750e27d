"""Reading a report on traces back."""

from pathlib import Path
from typing import Any

from perfkit.analysis.model.trace import TraceAnalysis
from perfkit.files import Migrations, read_json
from perfkit.store.summary import TRACE_REPORT_FILE


def read_trace_analysis(folder: Path) -> TraceAnalysis:
    """The analysis that `perfkit analyze` left in a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / TRACE_REPORT_FILE, TraceAnalysis, _MIGRATIONS)


def _without_splits(analysis: dict[str, Any]) -> None:
    """Format 2 has the two sides' splits of a comparison in their traces alone."""
    for name in ("before_split", "after_split"):
        (analysis.get("difference") or {}).pop(name, None)


_MIGRATIONS: Migrations = {1: _without_splits}
