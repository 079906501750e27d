"""Reads results that commands wrote."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from perfkit.analysis.model.comparison import Comparison
from perfkit.analysis.model.flight import FlightAnalysis
from perfkit.analysis.model.memory_analysis import MemoryAnalysis
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core.files import read_json
from perfkit.store.layout import REPORT_JSON
from perfkit.store.report_kinds import ReportKind
from perfkit.store.summary import (
    COMPARISON_FILE,
    FLIGHT_REPORT_FILE,
    MEMORY_REPORT_FILE,
    TRACE_REPORT_FILE,
)


def read_flight_analysis(folder: Path) -> FlightAnalysis:
    """Read the analysis that `perfkit analyze` wrote to a folder. A `RunFormatError` names any other file."""
    return read_json(folder / FLIGHT_REPORT_FILE, FlightAnalysis, remedy="read the dumps again")


def read_comparison(folder: Path) -> Comparison:
    """Read the comparison that `perfkit compare` wrote to a folder; `RunFormatError` if damaged or too new."""
    return read_json(folder / COMPARISON_FILE, Comparison, remedy="compare again")


def read_memory_analysis(folder: Path) -> MemoryAnalysis:
    """Read the analysis that `perfkit memory` wrote to a folder. A `RunFormatError` names any other file."""
    return read_json(folder / MEMORY_REPORT_FILE, MemoryAnalysis, remedy="analyze the recording again")


def read_trace_analysis(folder: Path) -> TraceAnalysis:
    """Read the analysis that `perfkit analyze` wrote; a `RunFormatError` where it is damaged or in another format."""
    return read_json(folder / TRACE_REPORT_FILE, TraceAnalysis, remedy="analyze the trace again")


def read_result(folder: Path, kind: ReportKind) -> Any:
    """The result in a folder of this kind. A `RunFormatError` names a file that is damaged or too new."""
    return resolve_name(kind.reader)(folder)


def read_suite_report(folder: Path) -> Analysis:
    """A suite's report without its suite: what `save` and `perfkit report --out` write."""
    return read_json(folder / REPORT_JSON, Analysis, remedy="write the report again with `perfkit report`")
