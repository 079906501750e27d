"""Speed against memory: of many points those are named that have room for it."""

from dataclasses import replace

import pytest

from perfkit_reports.charts import pareto
from perfkit_reports.palette import Style

POINT = pareto.ParetoPoint("alone", bytes=100.0, rate=10.0, style=Style("#000000", "circle", "solid"), on_front=False)


def names(points: list[pareto.ParetoPoint]) -> list[str]:
    drawn = pareto.build_chart(points, "tokens/s")
    assert drawn is not None
    return [text for trace in drawn.figure["data"] for text in trace.get("text", ()) if text]


def crowd(count: int) -> list[pareto.ParetoPoint]:
    """Points at nearly the same place, each a little faster than the one before."""
    return [replace(POINT, name=f"v{number}", rate=10.0 + 0.001 * number) for number in range(count)]


def test_few_points_are_all_named() -> None:
    assert len(names(crowd(pareto.ALL_NAMED))) == pareto.ALL_NAMED


def test_of_a_crowd_the_fastest_is_named_and_those_apart() -> None:
    apart = replace(POINT, name="apart", bytes=40.0, rate=2.0)
    assert sorted(names([*crowd(20), apart])) == ["apart", "v19"]


def test_the_front_is_named_before_what_is_faster_elsewhere() -> None:
    first, *others = crowd(20)
    assert names([replace(first, on_front=True), *others]) == ["v0"]


@pytest.mark.parametrize("count", [1, 20])
def test_every_point_is_drawn_and_told_under_the_pointer(count: int) -> None:
    drawn = pareto.build_chart(crowd(count), "tokens/s")
    assert drawn is not None
    assert [trace["name"] for trace in drawn.figure["data"][1:]] == [f"v{number}" for number in range(count)]


def test_a_name_moves_below_its_point_where_another_is_above() -> None:
    lower = replace(POINT, name="lower")
    upper = replace(POINT, name="upper", rate=10.4)
    drawn = pareto.build_chart([lower, upper], "tokens/s")
    assert drawn is not None
    assert {trace["name"]: trace["textposition"] for trace in drawn.figure["data"][1:]} == {
        "lower": "bottom center",
        "upper": "top center",
    }
