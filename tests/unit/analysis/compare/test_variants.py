"""Suites as a whole, variant by variant."""

from pathlib import Path

import pytest

from perfkit.analysis.model.comparison import ComparedAmount, Comparison
from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.store.price import Price
from tests.fixtures.suites import keep_price, record, write_suite


def suite(folder: Path, **steps: float) -> Path:
    """Of three processes of each, with 1 % between them that cancels in pairs."""
    made = {name: [record(step_s * share) for share in (1.0, 1.01, 0.99)] for name, step_s in steps.items()}
    return write_suite(folder, made)


def amounts(found: Comparison, name: str, title: str) -> tuple[ComparedAmount, ...]:
    variant = next(each for each in found.variants if each.name == name)
    return next(figure.amounts for figure in variant.figures if figure.title == title)


def test_each_variant_has_its_times_and_the_speed_up_over_its_own_baseline(tmp_path: Path) -> None:
    before = suite(tmp_path / "a", baseline=0.1, amp=0.05, ckpt=0.12)
    after = suite(tmp_path / "b", baseline=0.2, amp=0.05, flash=0.1)
    found = compare_runs([before, after])
    assert [variant.name for variant in found.variants] == ["baseline", "amp"]
    assert found.unshared_variants == {"a": ("ckpt",), "b": ("flash",)}
    assert [amount.value for amount in amounts(found, "baseline", "Step time")] == [0.1, 0.2]
    assert [amount.value for amount in amounts(found, "amp", "Speed-up")] == [pytest.approx(2.0), pytest.approx(4.0)]
    first, second = amounts(found, "amp", "Speed-up")
    assert first.high is not None
    assert second.low is not None
    assert first.high < second.low
    assert "Speed-up" not in [figure.title for figure in found.variants[0].figures]  # of the baseline nobody has one


def test_three_suites_of_which_one_lacks_a_variant(tmp_path: Path) -> None:
    suites = [suite(tmp_path / name, baseline=0.1, amp=0.05) for name in "ab"]
    suites.append(suite(tmp_path / "c", baseline=0.1, ckpt=0.05))
    found = compare_runs(suites)
    assert amounts(found, "amp", "Step time")[2].reason == "no such variant"
    assert found.unshared_variants == {"c": ("ckpt",)}


def test_a_variant_that_is_compared_with_no_baseline_says_so(tmp_path: Path) -> None:
    made = {"baseline": [record(0.1)], "amp": [record(0.05)]}
    suites = [suite(tmp_path / "a", baseline=0.1, amp=0.05), write_suite(tmp_path / "b", made, baselines={})]
    alone = amounts(compare_runs(suites), "amp", "Speed-up")[1]
    assert (alone.value, "no baseline" in alone.reason) == (None, True)


def test_a_variant_that_is_named_and_suites_of_one_are_compared_as_runs(tmp_path: Path) -> None:
    whole, lone = suite(tmp_path / "a", baseline=0.1, amp=0.05), suite(tmp_path / "b", baseline=0.1)
    for runs in ([f"{whole}@baseline", f"{whole}@amp"], [whole, lone], [whole, f"{whole}@amp"]):
        assert (compare_runs(runs).variants, compare_runs(runs).unshared_variants) == ((), {})


def test_costs_stand_beside_each_other_where_both_have_a_price(tmp_path: Path) -> None:
    suites = [suite(tmp_path / name, baseline=step_s, amp=0.05) for name, step_s in (("a", 0.1), ("b", 0.2))]
    for folder, per_hour in zip(suites, (3.6, 1.8), strict=True):
        keep_price(folder, Price(per_hour=per_hour, currency="$"))
    found = compare_runs(suites)
    costs = amounts(found, "baseline", "Cost")  # 80 and 40 samples a second, at 0.001 and 0.0005 a second
    assert [amount.value for amount in costs] == [pytest.approx(0.0125), pytest.approx(0.0125)]
