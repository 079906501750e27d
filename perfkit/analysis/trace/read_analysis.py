"""Reading a report on traces back."""

from pathlib import Path
from typing import Any

from perfkit.analysis.model.idle import ELSEWHERE
from perfkit.analysis.model.step import REST
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.files import Migrations, read_json
from perfkit.store.summary import TRACE_REPORT_FILE


def read_trace_analysis(folder: Path) -> TraceAnalysis:
    """The analysis that `perfkit analyze` left in a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / TRACE_REPORT_FILE, TraceAnalysis, _MIGRATIONS)


def migrate_row_kinds(trace: dict[str, Any]) -> None:
    """What a trace of a report in format 2 lacks: dots of a roofline were apart from the rows of its tables."""
    dots = trace.pop("points")
    trace["summary"] = [dot for dot in dots if dot["kind"] in ("step", "trace", "phase")]
    for table, kind in (("kernels", "kernel"), ("ops", "op"), ("modules", "module"), ("phases", "phase")):
        for row in trace.get(table, ()):
            row["kind"] = REST if row["name"] in ("(other kernels)", "(other ops)") else kind
            row["achieved"] = row["flops"] / row["seconds"] if row["intensity"] and row["seconds"] else None


def _remove_splits(analysis: dict[str, Any]) -> None:
    """Format 2 has the two sides' splits of a comparison in their traces alone."""
    for name in ("before_split", "after_split"):
        (analysis.get("difference") or {}).pop(name, None)


def _migrate_all_row_kinds(analysis: dict[str, Any]) -> None:
    for trace in analysis["traces"]:
        migrate_row_kinds(trace)
    if analysis.get("difference"):
        migrate_row_kinds(analysis["difference"]["before_trace"])


def migrate_gap_causes(trace: dict[str, Any]) -> None:
    """What a trace of a report in format 3 lacks: its gaps were all such in which the host did something else."""
    for row in trace.get("gaps", ()):
        row |= {"cause": ELSEWHERE, "own": ""}


def _migrate_all_gap_causes(analysis: dict[str, Any]) -> None:
    before = (analysis.get("difference") or {}).get("before_trace")
    for trace in [*analysis["traces"], *([before] if before else [])]:
        migrate_gap_causes(trace)


_MIGRATIONS: Migrations = {1: _remove_splits, 2: _migrate_all_row_kinds, 3: _migrate_all_gap_causes}
