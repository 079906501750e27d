"""Keeps the results of a session, and looks into them by id."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from perfkit.core.errors import UsageError, make_unknown_name_error

_MOST_RESULTS = 8  # the JSON of a long trace takes tens of megabytes

# Lists of rows within a trace, each with the longest rows first.
TABLES = ("kernels", "ops", "modules", "gemms", "attentions", "collectives", "copies", "host_calls", "gaps")


class ResultStore:
    """The last results by id: `analysis-1`, `bench-2`."""

    def __init__(self) -> None:
        self._results: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._count = 0

    def add_result(self, kind: str, content: dict[str, Any]) -> str:
        """Keep a result; returns its id."""
        self._count += 1
        id = f"{kind}-{self._count}"
        self._results[id] = content
        while len(self._results) > _MOST_RESULTS:
            self._results.popitem(last=False)
        return id

    def get_result(self, id: str) -> dict[str, Any]:
        """A result; a `UsageError` names the kept ones."""
        if id not in self._results:
            raise make_unknown_name_error("result", id, self._results)
        return self._results[id]


def select_findings(result: Mapping[str, Any], id: str = "", severity: str = "") -> list[dict[str, Any]]:
    """The findings of a result, in its order, of one id or severity."""
    return [
        finding
        for finding in result.get("findings", ())
        if id in ("", finding["id"]) and severity in ("", finding["severity"])
    ]


def select_rows(result: Mapping[str, Any], table: str, subject: str = "") -> list[dict[str, Any]]:
    """The rows of a table of a trace: of the one labeled `subject`, or of that variant, else of the first."""
    if table not in TABLES:
        raise make_unknown_name_error("table", table, TABLES)
    traces = _find_traces(result)
    if not traces:
        raise UsageError("this result has no trace; ask for rows of an analysis, or of a bench with a traced step")
    if subject and subject not in traces:
        raise make_unknown_name_error("subject", subject, traces)
    rows: list[dict[str, Any]] = traces[subject or next(iter(traces))][table]
    return rows


def _find_traces(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    if "traces" in result:
        return {trace["label"]: trace for trace in result["traces"]}
    return {variant["name"]: variant["trace"] for variant in result.get("variants", ()) if variant.get("trace")}
