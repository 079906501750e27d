"""Published measurements beside their plans: errors, intervals, and what is planned again."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import plan_published
from benchmarks.plan_published import ARGUMENTS, MEASUREMENTS, compare_rows, describe_plan, format_table, summarize
from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.spec import parse_variants
from perfkit.plan.gpu_memory.non_tensor_memory import CACHED
from perfkit.plan.target.target import parse_target

PEAK = PlannedPeak(value=900, low=800, high=950, phase="backward", categories={"activation": 900})
FREE = NonTensorMemory(name=CACHED, bytes=Interval(value=60, low=0, high=60), source="")
STEP = StepTime(total=Interval(value=0.3, low=0.2, high=0.5), parts={"GEMM": 0.3}, dominant="GEMM", source="")


def make_row(name: str, **measured: float) -> dict[str, Any]:
    return {
        "id": name,
        "measured": measured,
        "unknown": "the clock",
        "miss": "a kernel of another version",
    } | dict.fromkeys(ARGUMENTS, "")


def test_reserved_memory_is_the_peak_and_what_is_free() -> None:
    figures = describe_plan(
        PlannedVariant(name="", world_size=1, peak_allocated_bytes=PEAK, outside_allocator=(FREE,), step_s=STEP)
    )
    assert figures["allocated"] == {"value": 900, "low": 800, "high": 950}
    assert figures["reserved"] == {"value": 960, "low": 800, "high": 1010}
    assert figures["step"] == {"value": 0.3, "low": 0.2, "high": 0.5}


def test_errors_are_of_what_was_measured_and_unplanned_rows_have_a_reason() -> None:
    planned = {"reason": "", "step": {"value": 0.3, "low": 0.2, "high": 0.5}}
    rows = [make_row("a", step=0.25), make_row("b", step=0.6), make_row("c", allocated=1000.0)]
    results = {name: {"planned": planned} for name in ("a", "b")} | {"c": {"planned": {"reason": "no fake kernel"}}}
    a, b, c = compare_rows(rows, results)
    assert (a["error"], a["within"], a["width"]) == (pytest.approx(0.2), True, 2.5)
    assert (b["error"], b["within"]) == (pytest.approx(-0.5), False)
    assert (c["error"], c["reason"]) == (None, "no fake kernel")
    summary = summarize([a, b])
    assert summary["within"] == 0.5
    assert summary["worst_factor"] == pytest.approx(2.0)
    assert summary["median_factor"] == pytest.approx(1.6)
    _, _, inside, outside, _ = format_table([a, b, c])
    assert "a kernel" not in inside
    assert "a kernel" in outside


def test_a_row_is_planned_once_and_again_if_its_arguments_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[str] = []

    def plan(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for row in rows:
            planned.append(row["id"])
            yield row, {"reason": "", "step": {"value": 1.0, "low": 0.5, "high": 2.0}}

    measurements = tmp_path / "measurements.json"
    monkeypatch.setattr(plan_published, "MEASUREMENTS", measurements)
    monkeypatch.setattr(plan_published, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(plan_published, "TABLE", tmp_path / "table.md")
    monkeypatch.setattr(plan_published, "_plan_rows", plan)
    monkeypatch.setattr("sys.argv", ["plan_published"])
    rows = [make_row("a", step=1.1), make_row("b", step=0.9)]
    for gpu in ("h100-sxm", "h100-sxm", "a100-sxm-80gb"):
        measurements.write_text(json.dumps([rows[0], rows[1] | {"gpu": gpu}]))
        plan_published.main()
    assert planned == ["a", "b", "b"]


def test_measurements_name_techniques_and_gpus_that_there_are() -> None:
    rows = json.loads(MEASUREMENTS.read_text())
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert parse_target(row["gpu"], None).entry is not None
        assert len(parse_variants(row["technique"])) == 1
        assert row["measured"].keys() <= {"allocated", "reserved", "step"}
        assert all(value > 0 for value in row["measured"].values())
