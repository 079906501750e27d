"""Reads results that commands wrote: each kind of folder by its marker file."""

from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from perfkit.analysis.model.suite import Analysis
from perfkit.core.files import read_json
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

# By marker file: what reads the folder, imported when it is needed.
READERS = {
    TRACE_REPORT_FILE: "perfkit.analysis.pipeline.read_analysis:read_trace_analysis",
    MEMORY_REPORT_FILE: "perfkit.analysis.pipeline.recording_reader:read_memory_analysis",
    FLIGHT_REPORT_FILE: "perfkit.analysis.pipeline.flight_reader:read_flight_analysis",
    CHECK_FILE: "perfkit.check.judge.check_reader:read_check",
    PROCESS_FILE: "perfkit.analysis.pipeline.process_stacks:read_process_analysis",
    COMPARISON_FILE: "perfkit.analysis.pipeline.run_reader:read_comparison",
    SUITE_FILE: "perfkit.analysis.pipeline.analyze:analyze_suite",
    PLAN_FILE: "perfkit.analysis.suite.suite_plan:read_plan",  # last: a suite may hold one
}


def find_marker(folder: Path) -> str | None:
    """The marker file of a folder; None if no command wrote it."""
    return next((name for name in READERS if (folder / name).is_file()), None)


def read_marked_folder(folder: Path, marker: str) -> Any:
    """The result in a folder, by its marker. A `RunFormatError` names a file that is damaged or too new."""
    return resolve_name(READERS[marker])(folder)


def read_suite_report(folder: Path) -> Analysis:
    """A suite's report without its suite: what `save` and `perfkit report --out` write."""
    return read_json(folder / REPORT_JSON, Analysis, remedy="write the report again with `perfkit report`")
