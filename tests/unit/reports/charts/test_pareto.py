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


def test_few_points_with_room_are_all_named() -> None:
    points = [replace(POINT, name=f"v{number}", bytes=20.0 * number, rate=3.0 + number) for number in range(1, 6)]
    assert sorted(names(points)) == ["v1", "v2", "v3", "v4", "v5"]


def test_no_name_of_a_crowd_covers_another_or_a_point() -> None:
    points = crowd(20)
    sides = pareto.place_names([*points, replace(POINT, name="apart", bytes=40.0, rate=2.0)])
    assert {"apart", "v19"} <= sides.keys()
    assert len(sides) < len(points)
    crowded = [side for name, side in sides.items() if name != "apart"]
    assert len({*crowded}) == len(crowded)


def test_the_front_is_named_before_what_is_faster_elsewhere() -> None:
    long = [replace(point, name=f"{point.name}:with=many,parameters=1") for point in crowd(20)]
    first, *others = long
    assert next(iter(pareto.place_names([replace(first, on_front=True), *others]))) == first.name
    assert next(iter(pareto.place_names(long))) == long[-1].name


def test_what_does_not_count_is_hollow_and_says_so() -> None:
    drawn = pareto.build_chart([POINT, replace(POINT, name="other", bytes=40.0, rate=5.0, valid=False)], "tokens/s")
    assert drawn is not None
    dots = {trace["name"]: trace for trace in drawn.figure["data"][1:]}
    assert (dots["alone"]["marker"]["symbol"], dots["other"]["marker"]["symbol"]) == ("circle", "circle-open")
    assert dots["other"]["text"][0] != "other"


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
