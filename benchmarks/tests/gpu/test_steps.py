import json
import math

import pytest

from benchmarks.gpu.steps import (
    BASELINE,
    CASES,
    PLANS,
    Timed,
    are_apart,
    compare_timings,
    group_variants,
    read_plan,
    summarize,
    take_turns,
)

PLAN = {
    "model_flops": 1e12,
    "variants": {
        "amp": {"step_s": {"value": 0.1, "low": 0.08, "high": 0.15}, "peak_bytes": 1, "planned_eagerly": False}
    },
}
STEADY = [0.1, 0.1001, 0.0999, 0.1]


def test_every_measured_variant_is_planned_for_both_gpus() -> None:
    for gpu in ("h100-sxm", "h200-sxm"):
        for (name, device), case in CASES.items():
            if device == "cuda":
                plan = read_plan(name, gpu)
                assert set(plan["variants"]) == set(case.variants)
                assert all(row["step_s"]["low"] < row["step_s"]["high"] for row in plan["variants"].values())
                assert plan["model_flops"] > 0


def test_a_device_without_a_plan_has_no_variants() -> None:
    assert read_plan("gpt", "a100-sxm-80gb")["variants"] == {}


def test_gpt_fits_an_h200_at_once_and_an_h100_in_groups() -> None:
    peaks = {name: row["peak_bytes"] for name, row in read_plan("gpt", "h100-sxm")["variants"].items()}
    assert len(group_variants(peaks, 150e9)) < len(group_variants(peaks, 80e9))
    for group in group_variants(peaks, 80e9):
        assert group[0] == BASELINE
    assert sorted(name for group in group_variants(peaks, 80e9) for name in group[1:]) == sorted(
        set(peaks) - {BASELINE}
    )


def test_what_fits_nowhere_is_alone_with_the_baseline() -> None:
    assert group_variants({BASELINE: 50e9, "amp": 60e9, "ckpt": 1e9}, 80e9) == [[BASELINE, "amp"], [BASELINE, "ckpt"]]


def test_turns_alternate_and_a_failed_member_takes_no_more() -> None:
    asked: list[str] = []

    def take(name: str) -> float | None:
        asked.append(name)
        return None if name == "b" and asked.count("b") == 2 else 1.0

    taken = take_turns("abc", 3, take)
    assert "".join(asked) == "abc" + "cba" + "ac"
    assert {name: len(turns) for name, turns in taken.items()} == {"a": 3, "b": 1, "c": 3}


def test_a_summary_holds_the_median_and_an_interval() -> None:
    summary = summarize([1.0, 2.0, 100.0])
    assert summary is not None
    assert summary.value == 2.0
    assert summary.low is not None
    assert summary.low < 2.0
    assert summarize([]) is None
    assert summarize([1.0]).half_width == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(("factor", "apart"), [(1.02, False), (1.05, True), (1 / 1.05, True)])
def test_two_times_are_apart_beyond_their_intervals(factor: float, apart: bool) -> None:
    one, other = summarize(STEADY), summarize([factor * each for each in STEADY])
    assert one is not None
    assert other is not None
    assert are_apart(one, other) == apart


def test_a_step_outside_its_plan_and_two_times_that_differ_are_wrong() -> None:
    slow = [2 * each for each in STEADY]
    found = compare_timings("gpt", {"amp": Timed(slow, STEADY)}, PLAN, "h200-sxm")
    assert len(found.wrong) == 2
    figures = found.figures["variants"]["amp"]
    assert figures["planned_error"] == pytest.approx(-0.5)
    assert figures["mfu"] == pytest.approx(1e12 / 0.2 / 989.4e12)
    assert [each["mfu"] for each in figures["published"]]


def test_a_step_within_its_plan_is_right() -> None:
    assert compare_timings("gpt", {"amp": Timed(STEADY, STEADY)}, PLAN, "h200-sxm").wrong == []


def test_a_failed_variant_is_wrong_and_the_others_stand() -> None:
    found = compare_timings("gpt", {"amp": Timed(reason="crashed"), "ckpt": Timed(STEADY, STEADY)}, PLAN, "h200-sxm")
    assert found.wrong == ["amp: crashed"]
    assert found.figures["variants"]["ckpt"]["alone"]["step_s"] == pytest.approx(0.1)


def test_plans_hold_finite_figures() -> None:
    def visit(value: object) -> None:
        if isinstance(value, dict):
            for each in value.values():
                visit(each)
        elif isinstance(value, float):
            assert math.isfinite(value)

    visit(json.loads(PLANS.read_text()))
