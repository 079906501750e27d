import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.gpu.parts import Estimate, plan_rows, read_estimates
from benchmarks.gpu.plan_minutes import (
    COMPILE_S,
    START_S,
    estimate_bench,
    estimate_rows,
    find_bench,
    read_recorded,
    write_estimates,
)
from benchmarks.gpu.rows import Bench, Found, Row, Setting
from benchmarks.gpu.runner import ARCHIVE_S, END_S, LIMIT_S
from benchmarks.gpu.steps import CASES

GPT = ("-w", "gpt:size=small", "--batch-size", "16")


def never(setting: Setting) -> Found:
    raise AssertionError


def plan(workload: Sequence[str], variants: Sequence[str]) -> Mapping[str, float | None]:
    assert workload == GPT
    return {"baseline": 0.4, "amp": 0.1, "compile": 0.3, "channels_last": None}


def test_a_bench_takes_its_planned_steps_and_set_up() -> None:
    bench = Bench(GPT, ("baseline", "amp"), steps=20, processes=2)
    estimate = estimate_bench(bench, plan(GPT, ()), 10.0, "recorded")
    assert estimate is not None
    assert estimate.seconds == 2 * 20 * (0.4 + 0.1) + 4 * 10.0


def test_what_compiles_takes_longer() -> None:
    estimate = estimate_bench(Bench(GPT, ("compile",), steps=10), plan(GPT, ()), 10.0, "recorded")
    assert estimate is not None
    assert estimate.seconds == 10 * 0.3 + 10.0 + COMPILE_S


def test_a_stated_set_up_is_that_of_all_processes() -> None:
    estimate = estimate_bench(Bench(GPT, ("baseline", "compile"), 10, setup_s=47), plan(GPT, ()), 10.0, "recorded")
    assert estimate is not None
    assert estimate.seconds == 10 * 0.7 + 47


def test_rows_are_planned_then_recorded_then_stated() -> None:
    rows = [
        ("techniques", Row("gpt", never, 150, planned_s=99, bench=Bench(GPT, ("amp",), steps=100))),
        ("techniques", Row("unplanned", never, 150, planned_s=99, bench=Bench(GPT, ("channels_last",), steps=100))),
        ("attach", Row("recorded", never, 150, planned_s=99)),
        ("attach", Row("energy", never, 150, planned_s=40, basis="windows of 5 s")),
    ]
    recorded = {("stands", "nvml"): 10.0, ("attach", "recorded"): 25.7}
    estimates = estimate_rows(rows, recorded, plan)
    assert {key: estimate.seconds for key, estimate in estimates.items()} == {
        ("techniques", "gpt"): 20.0,
        ("techniques", "unplanned"): 99,
        ("attach", "recorded"): 25.7,
        ("attach", "energy"): 40,
    }
    assert estimates["attach", "energy"].basis == "windows of 5 s"


def test_a_case_of_steps_is_planned_by_its_own_steps() -> None:
    case = CASES["gpt", "cuda"]
    bench = find_bench("steps", Row("gpt", never, 150), 10.0)
    assert bench is not None
    assert (bench.workload, bench.variants) == (("-w", case.argument), case.variants)
    assert bench.steps == 2 * case.warmup + case.alone + case.turns * case.turn_steps
    assert bench.setup_s == 10.0 + sum("compile" in variant for variant in case.variants) * COMPILE_S


def test_seconds_of_rows_that_ended_are_recorded(tmp_path: Path) -> None:
    rows = {"a": {"status": "ok", "seconds": 3.5}, "b": {"status": "failed", "seconds": 300}}
    (tmp_path / "attach.json").write_text(json.dumps({"machine": {}, "rows": rows}))
    (tmp_path / "variants.json").write_text("[]")
    assert read_recorded(tmp_path) == {("attach", "a"): 3.5}


def test_estimates_are_written_as_a_run_reads_them(tmp_path: Path) -> None:
    estimates = {("steps", "gpt"): Estimate(66.0, "plan"), ("ranks", "hsdp"): Estimate(9.0, "stated")}
    write_estimates(estimates, "h200-sxm", tmp_path / "planned.json")
    assert read_estimates(tmp_path / "planned.json") == estimates


def test_every_row_is_planned_within_nine_minutes() -> None:
    """By the committed file."""
    known = read_estimates()
    rows = plan_rows(estimates=known)
    assert {(row.part.script, row.row.name) for row in rows} == set(known)
    assert all(row.estimate.basis for row in rows)
    assert sum(row.estimate.seconds for row in rows) <= LIMIT_S - END_S - ARCHIVE_S - START_S


@pytest.mark.parametrize("group", ["a", "b", "c", "d"])
def test_no_planned_row_outlasts_its_longest_time(group: str) -> None:
    for row in plan_rows():
        if row.part.group == group:
            assert row.estimate.seconds <= row.row.at_most_s, row.name
