import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.analysis.compare.environments import compare_environments
from perfkit.analysis.model.estimate import MissingEstimate
from perfkit.check.judge.check_figures import RunFigures
from perfkit.check.judge.check_thresholds import Threshold, parse_threshold
from perfkit.check.judge.exact_counts import judge_exact, judge_exact_quantities, judge_parity, make_not_compared
from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod
from perfkit.check.judge.result import Verdict
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import ENVIRONMENT

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
PEAK, KERNELS, BREAKS, PARITY = (BY_NAME[name] for name in ("peak_allocated", "kernel_count", "graph_breaks", "parity"))
MIB = 2**20
LOSSES = (5.6, 5.2, 4.8)


def threshold(quantity: GatedQuantity, text: str | None = None) -> Threshold:
    given = quantity.default if text is None else text
    assert given is not None
    return parse_threshold(given, quantity.unit, more_is_worse=quantity.more_is_worse)


DEFAULTS = {each.name: threshold(each) for each in QUANTITIES if each.default is not None}


@pytest.mark.parametrize(
    ("quantity", "text", "before", "after", "verdict", "figures"),
    [
        (PEAK, "0.5%", 100 * MIB, 100 * MIB, "pass", ["100 MiB"]),
        (
            PEAK, "0.5%", 12.3 * MIB, 12.6 * MIB, "fail",
            ["12.3 MiB", "12.6 MiB", "+2.4 %", "0.5%"],
        ),
        (
            PEAK, "0.5%", 85_671_252, 85_671_320, "worse",
            ["85,671,252 B", "85,671,320 B", "+0.000079 %", "0.5%"],
        ),
        (
            PEAK, "0.5%", 100 * MIB, 90 * MIB, "improved",
            ["100 MiB", "90.0 MiB", "-10.0 %", "0.5%"],
        ),
        (
            PEAK, "+64MiB", 100 * MIB, 164 * MIB, "worse",
            ["100 MiB", "164 MiB", "+64.0 %", "+64MiB"],
        ),
        (
            PEAK, "<=1GiB", 900 * MIB, 1100 * MIB, "fail",
            ["900 MiB", "1.07 GiB", "+22.2 %", "1GiB"],
        ),
        (
            PEAK, "<=1GiB", 1100 * MIB, 900 * MIB, "improved",
            ["1.07 GiB", "900 MiB", "-18.2 %", "1GiB"],
        ),
        (PEAK, "<=1GiB", 2**31, 2**31, "fail", ["2.00 GiB", "1GiB"]),
        (KERNELS, "0%", 722, 723, "fail", ["722", "723", "+0.1 %", "0%"]),
        (KERNELS, "0%", 722, 721, "improved", ["722", "721", "-0.1 %", "0%"]),
        (BREAKS, "+0", 0, 2, "fail", ["0", "2", "+0"]),
        (BREAKS, "+2", 0, 2, "worse", ["0", "2", "+2"]),
    ],
)  # fmt: skip
def test_counts_are_judged_exactly_with_the_reason_in_words(
    quantity: GatedQuantity, text: str, before: float, after: float, verdict: str, figures: list[str]
) -> None:
    judged = judge_exact(quantity, before, after, threshold(quantity, text))
    assert (judged.verdict, list_figures(judged.reason)) == (verdict, figures)
    assert (judged.before, judged.after, judged.exact, judged.samples) == (before, after, True, 0)
    assert judged.change == (pytest.approx(after / before - 1) if before else None)


@given(before=st.integers(1000, 2**45), worse=st.floats(0.0051, 10))
def test_more_than_the_threshold_is_always_found(before: int, worse: float) -> None:
    after = math.ceil(before * (1 + worse))
    assert judge_exact(PEAK, before, after, threshold(PEAK)).verdict is Verdict.FAIL
    assert judge_exact(PEAK, after, before, threshold(PEAK)).verdict is not Verdict.FAIL


@given(value=st.integers(0, 2**50))
def test_what_is_the_same_is_never_a_fail(value: int) -> None:
    for quantity in (each for each in QUANTITIES if each.judging is JudgingMethod.EXACT and each is not PARITY):
        assert judge_exact(quantity, value, value, threshold(quantity)).verdict is Verdict.PASS


def test_without_a_threshold_a_change_is_told_and_cannot_fail() -> None:
    judged = judge_exact(KERNELS, 10, 20, None)
    assert judged.verdict == "pass"
    assert list_figures(judged.reason) == ["10", "20", "+100.0 %"]


def test_what_is_missing_on_a_side_is_not_compared() -> None:
    gone = judge_exact(PEAK, 5.0, MissingEstimate(reason="out of memory"), threshold(PEAK))
    assert (gone.verdict, gone.reason) == ("not compared", "now: out of memory")
    assert (gone.before, gone.after, gone.change) == (5.0, None, None)
    new = judge_exact(PEAK, MissingEstimate(reason="not stored"), 5.0, threshold(PEAK))
    assert (new.verdict, new.reason) == ("not compared", "before: not stored")
    assert (new.before, new.after) == (None, 5.0)


def test_a_limit_needs_no_figure_before() -> None:
    nothing = MissingEstimate(reason="not stored")
    assert judge_exact(PEAK, nothing, 2.0 * MIB, threshold(PEAK, "<=1MiB")).verdict is Verdict.FAIL
    within = judge_exact(PEAK, nothing, 0.5 * MIB, threshold(PEAK, "<=1MiB"))
    assert within.verdict is Verdict.PASS
    assert within.reason == "peak allocated: 512 KiB (before: not stored), limit <=1MiB"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "distance", "figures"),
    [
        (LOSSES, LOSSES, "pass", 0.0, ["3"]),
        (LOSSES, LOSSES[:2], "pass", 0.0, ["2"]),
        (
            LOSSES, (5.6, 5.2026, 4.8), "pass", 0.0005,
            ["3", "0.0005", "2", "0.001"],
        ),
        (
            LOSSES, (5.6, 5.2, 4.9), "fail", 0.1 / 4.8,
            ["3", "0.021", "3", "0.001"],
        ),
        (LOSSES, (5.6, None, 4.8), "fail", None, ["2", "5.20000"]),
        (LOSSES, (5.6, math.nan), "fail", None, ["2", "5.20000"]),
        (LOSSES, (None,), "fail", None, ["1", "5.60000"]),
        (
            (5.6, None, 4.8), (5.6, None, 4.8), "pass", 0.0,
            ["2"],
        ),
        ((None, 5.2), LOSSES, "not compared", None, []),
        ((0.0,), (0.0,), "pass", 0.0, []),
        (
            (0.0,), (0.1,), "fail", None,
            ["1", "0.001"],
        ),
    ],
)  # fmt: skip
def test_losses_are_compared_step_by_step(
    before: tuple[float | None, ...],
    after: tuple[float | None, ...],
    verdict: str,
    distance: float | None,
    figures: list[str],
) -> None:
    judged = judge_parity(PARITY, RunFigures(losses=before), RunFigures(losses=after), threshold(PARITY))
    assert (judged.verdict, list_figures(judged.reason)) == (verdict, figures)
    assert judged.after == (None if distance is None else pytest.approx(distance))
    assert msgspec.json.decode(msgspec.json.encode(judged), type=type(judged)) == judged


def test_ungated_losses_cannot_fail() -> None:
    apart = judge_parity(PARITY, RunFigures(losses=LOSSES), RunFigures(losses=(1.0,)), None)
    assert apart.verdict is Verdict.PASS
    assert apart.reason.endswith("no threshold")
    gone = judge_parity(PARITY, RunFigures(losses=LOSSES), RunFigures(losses=(None,)), None)
    assert gone.verdict is Verdict.NOT_COMPARED


def test_without_losses_there_is_nothing_to_compare() -> None:
    nothing = RunFigures(missing={"parity": "losses not recorded"})
    judged = judge_parity(PARITY, nothing, RunFigures(losses=LOSSES), threshold(PARITY))
    assert (judged.verdict, judged.reason) == (
        "not compared",
        "before: losses not recorded",
    )


def figures(**exact: float) -> RunFigures:
    whole = {"peak_allocated": 100.0 * MIB, "flops": 1e9, "kernel_count": 722.0, **exact}
    return RunFigures(exact=whole, losses=LOSSES, missing={"graph_breaks": "nothing was compiled"})


def judge(after: RunFigures, **environment: Any) -> dict[str, Any]:
    differs = compare_environments(ENVIRONMENT, msgspec.structs.replace(ENVIRONMENT, **environment))
    found = judge_exact_quantities(figures(), after, DEFAULTS, differs)
    return {each.quantity: each for each in found}


def test_all_exact_quantities_are_judged_in_the_order_of_the_table() -> None:
    judged = judge(figures(peak_allocated=101.0 * MIB))
    assert list(judged) == [each.name for each in QUANTITIES if each.judging is JudgingMethod.EXACT]
    assert {name: str(each.verdict) for name, each in judged.items()} == {
        "peak_allocated": "fail",
        "peak_reserved": "not compared",
        "flops": "pass",
        "kernel_count": "pass",
        "graph_breaks": "not compared",
        "parity": "pass",
    }
    assert judged["peak_reserved"].reason == "now: not measured"
    assert judged["graph_breaks"].reason.startswith("now: nothing")


def test_what_may_be_why_a_count_changed_is_named() -> None:
    judged = judge(figures(kernel_count=730.0), torch="2.14.0", cpu_governor="powersave")
    assert judged["kernel_count"].verdict is Verdict.FAIL
    assert judged["kernel_count"].reason.endswith("torch: 2.13.0 -> 2.14.0")
    assert "torch" not in judged["flops"].reason


def test_counts_of_another_kind_of_device_are_not_compared() -> None:
    for each in judge(figures(), device="cuda").values():
        assert each.verdict is Verdict.NOT_COMPARED
        assert "device: cpu -> cuda" in each.reason


def test_what_is_not_compared_says_why() -> None:
    judged = make_not_compared(BY_NAME["step_time"], "times were measured elsewhere", after=0.5)
    assert (judged.verdict, judged.after, judged.exact) == ("not compared", 0.5, False)


@pytest.mark.parametrize(("now", "verdict"), [((5.6, 5.2000001, 4.1), Verdict.PASS), ((5.6, 5.1, 4.8), Verdict.FAIL)])
def test_on_another_processor_the_losses_around_the_first_update_decide(
    now: tuple[float, ...], verdict: Verdict
) -> None:
    """Training makes so much of roundings that a ResNet's losses are 4 % apart after ten steps, of two CPUs."""
    differs = compare_environments(ENVIRONMENT, msgspec.structs.replace(ENVIRONMENT, cpu_model="another"))
    judged = {
        each.quantity: each
        for each in judge_exact_quantities(RunFigures(losses=LOSSES), RunFigures(losses=now), DEFAULTS, differs)
    }["parity"]
    assert judged.verdict == verdict
    assert list_figures(judged.reason)[:1] == ["2"]
    assert "(cpu_model:" in judged.reason
