import pytest

from perfkit.check.judge.thresholds import Threshold
from perfkit.check.result import Judged, Verdict
from perfkit_reports.check.forest import WIDTH, Forest, forest

FIVE = Threshold(text="5%", relative=0.05)


def bar(threshold: Threshold | None = FIVE, **fields: object) -> Forest | None:
    given = {"before": 1.0, "after": 1.05, "change": 0.05, "verdict": Verdict.PASS, "more_is_worse": True, **fields}
    return forest(Judged(quantity="q", title="q", unit="s", reason="", threshold=threshold, **given), "words")


def test_no_change_lies_on_the_line_of_zero_and_the_threshold_on_its_own() -> None:
    assert bar(change=0.0).point == Forest.zero
    assert bar(change=0.05).point == pytest.approx(Forest.limit)
    assert bar(change=0.025, low=0.0, high=0.05).point == pytest.approx((Forest.zero + Forest.limit) / 2)
    assert (bar(change=0.02, low=0.0, high=0.05).low, bar(change=0.02, low=0.0, high=0.05).high) == (
        Forest.zero,
        pytest.approx(Forest.limit),
    )


def test_worse_is_to_the_right_also_where_less_is_worse() -> None:
    less = bar(change=-0.05, low=-0.1, high=0.0, more_is_worse=False)
    assert less.point == pytest.approx(Forest.limit)
    assert less.low == Forest.zero
    assert less.high == pytest.approx(2 * Forest.limit - Forest.zero)


def test_what_lies_outside_is_marked_at_the_edge() -> None:
    found = bar(change=5.0)
    assert (found.beyond, found.point < WIDTH) == ("right", True)
    assert bar(change=-5.0).beyond == "left"


def test_a_threshold_of_nothing_is_passed_by_no_change_alone() -> None:
    none = Threshold(text="0%", relative=0.0)
    assert (bar(none, change=0.0).point, bar(none, change=0.0).beyond) == (Forest.zero, "")
    assert bar(none, change=1e-6).beyond == "right"


def test_counts_from_zero_and_distances_have_no_relative_change() -> None:
    count = Threshold(text="+2", change=2.0)
    assert bar(count, before=0.0, after=1.0, change=None).point == pytest.approx((Forest.zero + Forest.limit) / 2)
    distance = Threshold(text="<=0.001", limit=0.001)
    assert bar(distance, before=None, after=0.001, change=None).point == pytest.approx(Forest.limit)


def test_shapes_tell_verdicts_apart_without_colour() -> None:
    shapes = [bar(verdict=verdict).shape for verdict in Verdict if verdict is not Verdict.NOT_COMPARED]
    assert len(set(shapes)) == len(shapes)


def test_nothing_is_drawn_without_threshold_or_figure() -> None:
    assert bar(None) is None
    assert bar(after=None, change=None) is None
