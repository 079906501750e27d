"""The kinds of folders that perfkit writes: one row each, from which everything that tells folders apart is derived.

`perfkit_reports.subjects.<name>` draws a kind's report.
"""

from pathlib import Path
from typing import NamedTuple

from perfkit.store.layout import SUITE_FILE
from perfkit.store.summary import (
    ADVICE_FILE,
    BISECT_FILE,
    CHECK_FILE,
    COMPARISON_FILE,
    FLIGHT_REPORT_FILE,
    MEMORY_REPORT_FILE,
    PLAN_FILE,
    PROCESS_FILE,
    TRACE_REPORT_FILE,
    TUNE_FILE,
)


class ReportKind(NamedTuple):
    """A kind of folder, recognized by the file `marker`.

    `reader` is the `module:function`, imported when needed, that takes the folder and returns its result. `noun` names
    the content in the error that refuses to compare it; it is "" for runs, which can be compared.
    """

    name: str
    marker: str
    reader: str
    noun: str = ""


_PIPELINE = "perfkit.analysis.pipeline"
_STORED = f"{_PIPELINE}.stored_results"

# The first whose marker a folder has is its kind.
REPORT_KINDS = (
    ReportKind("suite", SUITE_FILE, f"{_PIPELINE}.suite_analysis:analyze_suite"),
    ReportKind("trace", TRACE_REPORT_FILE, f"{_STORED}:read_trace_analysis"),
    ReportKind("memory", MEMORY_REPORT_FILE, f"{_STORED}:read_memory_analysis"),
    ReportKind("flight", FLIGHT_REPORT_FILE, f"{_STORED}:read_flight_analysis", "flight recorders"),
    ReportKind("check", CHECK_FILE, "perfkit.check.judge.check_reader:read_check", "a check"),
    ReportKind("bisect", BISECT_FILE, "perfkit.check.bisect.result:read_bisection", "a bisection"),
    ReportKind("process", PROCESS_FILE, f"{_PIPELINE}.process_stacks:read_process_analysis", "a running process"),
    ReportKind("comparison", COMPARISON_FILE, f"{_STORED}:read_comparison", "a comparison"),
    ReportKind("tune", TUNE_FILE, "perfkit.tune.model.tune_result:read_tune_result", "a search"),
    ReportKind("advice", ADVICE_FILE, "perfkit.plan.advise.advice_reader:read_advice", "advice"),
    # Last: in a suite's folder it is a part of the suite.
    ReportKind("plan", PLAN_FILE, "perfkit.analysis.suite.prediction:read_plan", "a plan"),
)
KIND_BY_MARKER = {kind.marker: kind for kind in REPORT_KINDS}


def find_kind(folder: Path) -> ReportKind | None:
    """The kind of a folder; None if no command wrote it."""
    return next((kind for kind in REPORT_KINDS if (folder / kind.marker).is_file()), None)
