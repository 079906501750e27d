"""Bars of time as a page draws them."""

import pytest

from perfkit.analysis.model.step import TimeShare
from perfkit_reports.document.blocks import Bar, Bars
from perfkit_reports.render.bar_sheet import build_bar_sheet
from tests.fixtures.figures import list_figures


def bar(name: str, whole_s: float, **shares: float) -> Bar:
    return Bar(name, tuple(TimeShare(category=part, seconds=whole_s * of, share=of) for part, of in shares.items()))


def test_a_single_bar_is_labeled_with_times_and_its_smallest_parts_are_one_entry() -> None:
    made = build_bar_sheet(Bars(id="b", title="", label="", bars=(bar("x", 2.0, a=0.9, b=0.093, c=0.004, d=0.003),)))
    (row,) = made.rows
    assert [(part.width, list_figures(part.label)) for part in row.parts] == [
        (0.9, ["1.80 s"]), (0.093, ["186 ms"]), (0.004, []), (0.003, []),
    ]  # fmt: skip
    assert [(name, list_figures(figures)) for name, _, figures in made.legend][:2] == [
        ("a", ["1.80 s", "90.0 %"]), ("b", ["186 ms", "9.3 %"]),
    ]  # fmt: skip
    assert list_figures(made.legend[2][2]) == ["14.0 ms", "0.7 %"]


def test_bars_to_scale_are_as_long_as_their_time() -> None:
    bars = (bar("short", 1.0, a=0.5, b=0.5), bar("long", 4.0, b=1.0))
    made = build_bar_sheet(Bars(id="b", title="", label="", bars=bars, to_scale=True))
    assert [sum(part.width for part in row.parts) for row in made.rows] == [pytest.approx(0.25), pytest.approx(1.0)]
    assert [figures for _, _, figures in made.legend] == ["", ""]
