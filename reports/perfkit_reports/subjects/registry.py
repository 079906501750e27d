"""Identifies a folder's content by its marker file, and builds its document."""

from pathlib import Path
from pkgutil import resolve_name

from perfkit.analysis.pipeline.stored_results import find_marker, read_marked_folder, read_suite_report
from perfkit.store.layout import REPORT_JSON, SUITE_FILE
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

# Subject module by marker file, imported on demand.
SUBJECTS = {
    TRACE_REPORT_FILE: "trace",
    MEMORY_REPORT_FILE: "memory",
    FLIGHT_REPORT_FILE: "flight",
    CHECK_FILE: "check",
    PROCESS_FILE: "process",
    COMPARISON_FILE: "compare",
    SUITE_FILE: "suite",
    PLAN_FILE: "plan",
}


def load_document(folder: Path) -> Document:
    """The document of a folder's content; a folder without a marker is refused like one without a suite.

    A report stored outside its suite's folder is read from its JSON.
    """
    marker = find_marker(folder)
    if marker is None and (folder / REPORT_JSON).is_file():
        marker, analysis = SUITE_FILE, read_suite_report(folder)
    else:
        marker = marker or SUITE_FILE
        analysis = read_marked_folder(folder, marker)
    subject = SUBJECTS[marker]
    builder = resolve_name(f"perfkit_reports.subjects.{subject}.{subject}_document:build_document")
    document: Document = builder(analysis)
    return document
