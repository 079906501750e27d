"""Reading a report on traces back."""

from pathlib import Path

from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.files import read_json
from perfkit.store.summary import TRACE_REPORT_FILE


def read_trace_analysis(folder: Path) -> TraceAnalysis:
    """Read the analysis that `perfkit analyze` wrote; a `RunFormatError` where it is damaged or in another format."""
    return read_json(folder / TRACE_REPORT_FILE, TraceAnalysis, remedy="analyze the trace again")
