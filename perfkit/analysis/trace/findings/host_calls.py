"""The CPU's calls among a trace's rows, as findings name them."""

from collections.abc import Sequence

from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.texts.name_lists import list_first


def select_calls(view: TraceView, kind: str) -> list[HostCallRow]:
    """Calls of a kind, those with the most device idle time first."""
    rows = [row for row in view.trace.host_calls if row.kind == kind]
    return sorted(rows, key=lambda row: (-(row.idle_s or 0.0), -row.seconds))


def sum_idle_s(rows: Sequence[HostCallRow]) -> float | None:
    """The device's idle time in these calls per step; None where no device was traced."""
    known = [row.idle_s for row in rows if row.idle_s is not None]
    return sum(known) if known else None


def format_calls(rows: Sequence[HostCallRow], most: int = 4) -> str:
    """`cudaStreamSynchronize in aten::item (3), ...`."""
    parts = [f"{row.name}{f' in {row.op}' if row.op else ''} ({format_count(row.calls)})" for row in rows]
    return list_first(parts, most)


def format_count(calls: float) -> str:
    """A number a step; a mean of few has a decimal."""
    return f"{calls:,.0f}" if calls >= 10 or calls == int(calls) else f"{calls:.1f}"
