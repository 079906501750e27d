"""From figures and pairs to verdicts: what is judged by what, and what a whole check comes to."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from perfkit.analysis.compare.environments import compare_environments
from perfkit.check.judge.check_figures import RunFigures
from perfkit.check.judge.check_thresholds import Threshold, parse_threshold
from perfkit.check.judge.judge import Evidence, combine_verdicts, count_family, judge_variant, list_gates
from perfkit.check.judge.looks import plan_looks
from perfkit.check.judge.quantities import QUANTITIES
from perfkit.check.judge.result import JudgedQuantity, Verdict
from perfkit.store.pairs import LOCK_STEP, Pairs
from tests.fixtures.paired_series import pair
from tests.fixtures.suites import ENVIRONMENT

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
BEFORE = RunFigures(
    exact={"peak_allocated": 1000.0, "flops": 5e9, "kernel_count": 700.0},
    processes={"step_time": (0.1, 0.11, 0.1), "cpu_time": (0.1, 0.1, 0.1), "throughput": (5120.0, 4654.5, 5120.0)},
    losses=(5.0, 4.0),
    missing={"graph_breaks": "nothing was compiled", "peak_reserved": "the CPU reserves nothing"},
)


def thresholds(**given: str) -> Mapping[str, Threshold | None]:
    """Those that are given, and the defaults."""
    texts = {quantity.name: quantity.default for quantity in QUANTITIES} | given
    return {
        name: None
        if text is None
        else parse_threshold(text, BY_NAME[name].unit, more_is_worse=BY_NAME[name].more_is_worse)
        for name, text in texts.items()
    }


def changed(**exact: float) -> RunFigures:
    return msgspec.structs.replace(BEFORE, exact={**BEFORE.exact, **exact})


def judged(
    before: RunFigures, after: RunFigures, given: Mapping[str, Threshold | None], **how: Any
) -> dict[str, JudgedQuantity]:
    plan = how.pop("plan", None)
    found = judge_variant(Evidence(before=before, after=after, **how), given, plan)
    assert len({each.quantity for each in found}) == len(found)
    return {each.quantity: each for each in found}


def sampled(slower: float, count: int = 20) -> Pairs:
    rng = np.random.default_rng(1)
    return Pairs(
        variant="amp", pairing=LOCK_STEP, pairs=tuple(pair(rng, slower=slower, between=0.02) for _ in range(count))
    )


def test_every_quantity_has_its_row_and_what_is_gated_comes_first() -> None:
    found = judged(BEFORE, BEFORE, thresholds())
    assert found.keys() == BY_NAME.keys()
    gated = [each.threshold is not None for each in found.values()]
    assert gated == sorted(gated, reverse=True)


def test_what_is_exact_is_all_that_is_judged_where_nothing_is_timed() -> None:
    found = judged(BEFORE, changed(kernel_count=701), thresholds(), timed=False)
    assert found.keys() == {name for name, quantity in BY_NAME.items() if quantity.judging.name == "EXACT"}
    assert found["kernel_count"].verdict is Verdict.FAIL
    assert found["peak_allocated"].verdict is Verdict.PASS


def test_what_neither_side_has_is_gated_only_where_it_was_asked_for() -> None:
    found = judged(BEFORE, BEFORE, thresholds(graph_breaks="+2"))
    assert found["peak_reserved"].threshold is None
    assert found["graph_breaks"].threshold is not None
    assert found["graph_breaks"].verdict is Verdict.NOT_COMPARED


def test_pairs_tell_times_and_the_rates_that_follow_from_them() -> None:
    given = thresholds(throughput="3%")
    found = judged(BEFORE, BEFORE, given, pairs=sampled(1.2), plan=plan_looks((6, 20)))
    assert [found[name].verdict for name in ("cpu_time", "step_time", "throughput")] == [Verdict.FAIL] * 3
    assert found["throughput"].change == pytest.approx(1 / 1.2 - 1, rel=0.15)
    assert found["step_time"].samples == 20


def test_without_pairs_times_are_compared_between_processes() -> None:
    slow = msgspec.structs.replace(BEFORE, processes={**BEFORE.processes, "cpu_time": (0.2, 0.201, 0.2)})
    fast = msgspec.structs.replace(BEFORE, processes={**BEFORE.processes, "cpu_time": (0.1, 0.1001, 0.1)})
    found = judged(fast, slow, thresholds())
    assert found["cpu_time"].verdict is Verdict.FAIL
    assert found["cpu_time"].samples == 3


def test_times_of_another_machine_are_refused_and_the_key_is_named() -> None:
    elsewhere = msgspec.structs.replace(ENVIRONMENT, cpu_model="another")
    found = judged(
        BEFORE, changed(kernel_count=700), thresholds(), differs=compare_environments(elsewhere, ENVIRONMENT)
    )
    assert found["cpu_time"].verdict is Verdict.NOT_COMPARED
    assert "cpu_model: another" in found["cpu_time"].reason
    assert found["kernel_count"].verdict is Verdict.PASS


def test_what_is_missing_on_one_side_says_which() -> None:
    none = msgspec.structs.replace(BEFORE, processes={}, missing={"cpu_time": "crashed"})
    found = judged(BEFORE, none, thresholds())
    assert found["cpu_time"].verdict is Verdict.NOT_COMPARED
    assert found["cpu_time"].reason == "now: crashed"
    assert found["cpu_time"].before == pytest.approx(0.1)


def test_the_family_is_of_what_is_gated_and_there() -> None:
    given = thresholds(throughput="3%", energy="5%")
    assert count_family(BEFORE, BEFORE, given, paired=True) == 3  # no energy on either side
    assert count_family(BEFORE, BEFORE, thresholds(cpu_time="3%"), paired=False) == 2
    assert [gate.quantity.name for gate in list_gates(BEFORE, BEFORE, given)] == ["cpu_time", "step_time", "throughput"]


def verdict(*told: tuple[Verdict, str | None, float | None], fail_on: Verdict = Verdict.FAIL) -> Verdict:
    """Of quantities with (verdict, threshold, value now); all of them had a value before."""
    judged = (
        JudgedQuantity(
            quantity="flops",
            title="",
            unit="",
            more_is_worse=True,
            verdict=each,
            reason="",
            before=1.0,
            after=now,
            threshold=None if text is None else Threshold(text=text, relative=0.0),
        )
        for each, text, now in told
    )
    return combine_verdicts(judged, fail_on)


def test_worse_goes_before_what_is_open_only_where_it_is_to_fail() -> None:
    open_, worse = (Verdict.INCONCLUSIVE, "3%", 1.0), (Verdict.WORSE, "3%", 1.0)
    assert verdict(open_, worse) is Verdict.INCONCLUSIVE
    assert verdict((Verdict.PASS, "3%", 1.0), worse, (Verdict.IMPROVED, "3%", 1.0)) is Verdict.WORSE
    assert verdict(open_, worse, fail_on=Verdict.WORSE) is Verdict.WORSE
    assert verdict(open_, worse, (Verdict.FAIL, "3%", 1.0), fail_on=Verdict.WORSE) is Verdict.FAIL


def test_a_check_comes_to_the_worst_of_what_is_gated() -> None:
    passed, failed = (Verdict.PASS, "0%", 1.0), (Verdict.FAIL, "0%", 2.0)
    assert verdict(passed, failed, (Verdict.INCONCLUSIVE, "3%", 1.0)) is Verdict.FAIL
    assert verdict(passed, (Verdict.INCONCLUSIVE, "3%", 1.0)) is Verdict.INCONCLUSIVE
    assert verdict(passed, (Verdict.IMPROVED, "3%", 1.0)) is Verdict.IMPROVED
    assert verdict(passed, (Verdict.NOT_COMPARED, "3%", 1.0)) is Verdict.PASS
    assert verdict((Verdict.FAIL, None, 2.0), passed) is Verdict.PASS
    assert verdict() is Verdict.NOT_COMPARED


def test_what_fell_silent_is_no_pass() -> None:
    assert verdict((Verdict.PASS, "0%", 1.0), (Verdict.NOT_COMPARED, "3%", None)) is Verdict.INCONCLUSIVE
