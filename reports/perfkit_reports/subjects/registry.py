"""Finds by one marker file what a folder holds: how it is read, and what makes a document of it."""

from pathlib import Path
from pkgutil import resolve_name

from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import (
    CHECK_FILE,
    COMPARISON_FILE,
    FLIGHT_REPORT_FILE,
    MEMORY_REPORT_FILE,
    PLAN_FILE,
    PROCESS_FILE,
    TRACE_REPORT_FILE,
)
from perfkit_reports.document.document import Document

# The marker, what reads a folder's analysis, and the subject that says it: imported when they are needed.
SUBJECTS = {
    TRACE_REPORT_FILE: ("perfkit.analysis.trace.read_analysis:read_trace_analysis", "trace.document"),
    MEMORY_REPORT_FILE: ("perfkit.analysis.memory.read:read_memory_analysis", "memory.document"),
    FLIGHT_REPORT_FILE: ("perfkit.analysis.flight.read_analysis:read_flight_analysis", "flight.document"),
    CHECK_FILE: ("perfkit.check.judge.read:read_check", "check.document"),
    PROCESS_FILE: ("perfkit.analysis.stacks.process_stacks:read_process_analysis", "process.document"),
    COMPARISON_FILE: ("perfkit.analysis.compare.read:read_comparison", "compare.document"),
    SUITE_FILE: ("perfkit.analysis.suite.analyze:analyze_suite", "suite.document"),
    PLAN_FILE: ("perfkit.analysis.suite.plan:read_plan", "plan.document"),  # last: a suite may hold one
}


def load_document(folder: Path) -> Document:
    """The document of what lies in a folder. One without a marker is refused as a folder without a suite is."""
    marker = next((name for name in SUBJECTS if (folder / name).is_file()), SUITE_FILE)
    read, subject = SUBJECTS[marker]
    document: Document = resolve_name(f"perfkit_reports.subjects.{subject}:build_document")(resolve_name(read)(folder))
    return document
