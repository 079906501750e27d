"""Results are kept by id, and looked into by finding and row."""

import json
from typing import Any

import msgspec
import pytest

from perfkit.core.errors import UsageError
from perfkit_cli.agents.results import TABLES, ResultStore, select_findings, select_rows
from perfkit_cli.agents.summaries import summarize_analysis, summarize_check, summarize_plan, summarize_suite
from perfkit_cli.output.plan_output import convert_plan
from tests.fixtures import sample_analysis, sample_checks, sample_plans, sample_trace_analysis


def _read(value: msgspec.Struct) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(msgspec.json.encode(value))
    return content


def test_the_last_results_are_kept() -> None:
    store = ResultStore()
    ids = [store.add_result("bench", {"number": number}) for number in range(10)]
    assert ids[:2] == ["bench-1", "bench-2"]
    assert store.get_result(ids[-1]) == {"number": 9}
    with pytest.raises(UsageError) as refused:
        store.get_result(ids[0])
    assert refused.value.id == "usage.unknown_result"


def test_rows_and_findings_of_an_analysis() -> None:
    content = _read(sample_trace_analysis.realistic())
    assert select_rows(content, "kernels") == content["traces"][0]["kernels"]
    label = content["traces"][0]["label"]
    assert all(select_rows(content, table, label) == content["traces"][0][table] for table in TABLES)
    first = content["findings"][0]
    assert select_findings(content, first["id"])[0] == first
    assert select_findings(content, severity="warning") == [
        finding for finding in content["findings"] if finding["severity"] == "warning"
    ]
    for wrong, id in ((("kernel",), "table"), (("kernels", "elsewhere"), "subject")):
        with pytest.raises(UsageError) as refused:
            select_rows(content, *wrong)
        assert refused.value.id == f"usage.unknown_{id}"


def test_summaries_have_what_decides() -> None:
    analysis = _read(sample_trace_analysis.realistic())
    summary = summarize_analysis(analysis)
    assert summary["traces"][0]["step_s"] == analysis["traces"][0]["step_s"]
    assert summary["finding_count"] == len(analysis["findings"])
    suite = summarize_suite(_read(sample_analysis.every_status()))
    assert {variant["status"] for variant in suite["variants"]} > {"ok", "skipped"}
    assert summarize_suite(_read(sample_analysis.nothing_measured()))["variants"] is not None
    plan = summarize_plan(json.loads(msgspec.json.encode(convert_plan(sample_plans.realistic()))))
    assert plan["confidence"] == "modeled"
    for make in sample_checks.ALL.values():
        check = _read(make())
        assert summarize_check(check, 1)["verdict"] == check["verdict"]


def test_a_result_without_a_trace_has_no_rows() -> None:
    with pytest.raises(UsageError):
        select_rows({"variants": []}, "kernels")
