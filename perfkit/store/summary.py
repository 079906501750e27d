"""The summary of a report for lists: `summary.json`, a few hundred bytes next to the report."""

import hashlib
import os
from collections.abc import Iterable

from perfkit.core.record.quantity import Measurement, Quantity, Unknown, make_measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Struct

REPORT_FILE = "report.html"
MARKDOWN_FILE = "report.md"
TABLES_FOLDER = "tables"
FIGURES_FOLDER = "figures"
SUMMARY_FILE = "summary.json"
TRACE_REPORT_FILE = "analysis.json"  # the whole of a report on traces
MEMORY_REPORT_FILE = "memory.json"  # and of one on memory
FLIGHT_REPORT_FILE = "flight.json"  # and of one on flight recorders
CHECK_FILE = "check.json"  # and of a comparison
BISECT_FILE = "bisect.json"  # and of a search for the change that made training worse
PROCESS_FILE = "process.json"  # and of a running process
COMPARISON_FILE = "comparison.json"  # and of compared runs
PLAN_FILE = "plan.json"  # and of a plan; in a suite's folder its predictions
TUNE_FILE = "tune.json"  # and of a search for the best variant
ADVICE_FILE = "advice.json"  # and of advice
MOST_COMPARED = 8  # runs at once
SUMMARY_VERSION = 3

_NOT_TOLD = Unknown(reason="not measured")


class RowFigures(Struct):
    """The key figures of `subject`, a variant or a trace; "" if there is only one.

    `step` is in seconds, `throughput` in units per second, `peak` in bytes, `mfu` a share.
    """

    subject: str = ""
    step: Quantity = _NOT_TOLD
    throughput: Quantity = _NOT_TOLD
    peak: Quantity = _NOT_TOLD
    mfu: Quantity = _NOT_TOLD


class VariantOutcome(Struct):
    """Outcome of one variant."""

    variant: str
    status: RunStatus


class ReportSummary(Struct):
    """One report in short. `kind` is `suite`, `trace`, `memory`, `flight`, `check`, `process`, `comparison`, `plan`
    or `advice`; `runs` is a suite's number of runs.

    `device` is "" if the report does not name one; `outcomes` is empty for what perfkit did not run; `conclusion`
    is that of a suite (`perfkit.store.suite_state.Conclusion`). `verdict` is that
    of a check, with its `reason` in words; "" for all else. `headline` is that of
    a suite. `sources` is the `compute_digest` of the files that a
    report was read from, "" for perfkit's own measurements.
    """

    schema_version: int = SUMMARY_VERSION
    kind: str
    name: str
    created_at: str
    device: str = ""
    outcomes: tuple[VariantOutcome, ...] = ()
    conclusion: str = ""
    runs: int = 0
    figures: RowFigures = RowFigures()
    verdict: str = ""
    reason: str = ""
    headline: str = ""
    sources: str = ""


def compute_digest(files: Iterable[str]) -> str:
    """Digest of the absolute paths and URLs of a report's files, to tell reports apart."""
    names = sorted(name if "://" in name else os.path.abspath(name) for name in files)  # noqa: PTH100 - no Path of a URL
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def make_unknown_figures(reason: str) -> RowFigures:
    """RowFigures none of which is known, for one reason."""
    none = Unknown(reason=reason)
    return RowFigures(step=none, throughput=none, peak=none, mfu=none)


def make_throughput(value: float, unit: str, source: str) -> Measurement:
    """A throughput of `unit` (`tokens`, `samples`) a second."""
    return make_measurement(value, f"{unit or 'units'}/s", source)
