"""A comparison of two traces in a sentence."""

from math import fsum

import pytest

from perfkit.analysis.difference.difference import compare_traces
from perfkit.analysis.difference.verdict import format_speed_change, format_verdict, rank_causes
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.step import OpRow
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import rank_trace, row, split

WAITING = "idle waiting for the CPU"


def side(label: str, step_s: float, busy: float, *ops: OpRow) -> object:
    parts = split(step_s, **{"memory-bound": busy / step_s, WAITING: 1 - busy / step_s})
    return rank_trace(label=label, step_s=step_s, time_split=parts, ops=ops)


def of(before: object, after: object) -> TraceDifference:
    return compare_traces(after, before)  # type: ignore[arg-type]


def test_what_grew_most_is_named() -> None:
    before = side("B", 0.0775, 0.07, row("aten::mm", 0.05), row("aten::add", 0.02))
    after = side("A", 0.124, 0.101, row("aten::mm", 0.081), row("aten::add", 0.02))
    verdict = format_verdict(of(before, after), "B.json")
    assert list_figures(verdict) == ["+60 %", "77.5", "124 ms", "+31.0 ms", "+15.5 ms"]
    assert "B.json" in verdict
    assert "GEMM +31.0 ms" in verdict


def test_a_host_that_is_late_is_no_work_of_the_device() -> None:
    op = row("aten::mm", 0.05)
    found = of(side("B", 0.1, 0.05, op), side("A", 0.12, 0.05, op))
    assert list_figures(format_verdict(found, "B")) == ["+20 %", "100", "120 ms", "+20.0 ms"]
    assert [seconds for _, seconds in rank_causes(found)] == [pytest.approx(0.02)]


def test_what_grew_by_more_than_the_step_is_told_with_what_shrank() -> None:
    before = side("B", 0.1, 0.05, row("aten::mm", 0.05))
    after = side("A", 0.08, 0.07, row("aten::mm", 0.07))
    assert list_figures(format_verdict(of(before, after), "B")) == ["-20 %", "100", "80.0 ms", "-40.0 ms", "+20.0 ms"]


def test_causes_sum_to_the_change_and_work_that_overlaps_is_told_as_one() -> None:
    before = side("B", 0.1, 0.05, row("aten::mm", 0.05))
    after = side("A", 0.2, 0.15, row("aten::mm", 0.25))  # on two streams
    found = of(before, after)
    ((name, seconds),) = rank_causes(found)
    assert "GEMM" in name
    assert seconds == pytest.approx(0.1)
    assert fsum(change for _, change in rank_causes(found)) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0.1, 0.1, "same speed as B"),
        (0.1, 0.103, "+3.0 % time vs B"),
        (0.1, 0.075, "-25 % time vs B"),
        (0.1, 0.25, "2.5 times as long as B"),
        (0.1, 0.01, "10 times as fast as B"),
    ],
)
def test_how_much_is_told_so_that_it_can_be_read(before: float, after: float, said: str) -> None:
    assert format_speed_change(before, after, "B") == said
