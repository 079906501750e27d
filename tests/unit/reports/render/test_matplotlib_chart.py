"""Every chart of every kind of report in print."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.image import imread

from perfkit.check.history.history import read_history
from perfkit_reports.charts import time_bars
from perfkit_reports.charts.frame import (
    build_axis,
    build_bars,
    build_figure,
    build_row_bars,
    build_row_figure,
    build_scatter,
)
from perfkit_reports.document.blocks import Bars, Chart
from perfkit_reports.document.document import Document
from perfkit_reports.palette import BLUE, Fill
from perfkit_reports.render.matplotlib_chart import draw_chart
from perfkit_reports.render.matplotlib_traces import strip_markup
from perfkit_reports.subjects import memory, trace
from perfkit_reports.subjects.check import check_document as check
from perfkit_reports.subjects.history import history_document as history
from perfkit_reports.subjects.loop import loop_document as loop
from perfkit_reports.subjects.suite import suite_document as suite
from tests.fixtures import sample_analysis, sample_checks, sample_loops, sample_memory_analysis, sample_trace_analysis
from tests.fixtures.document_blocks import blocks
from tests.fixtures.sample_histories import noisy_steps, write_past

DOCUMENTS: dict[str, Callable[[], Document]] = {
    "suite": lambda: suite.build_document(sample_analysis.every_status()),
    "loop": lambda: loop.build_document(sample_loops.with_capture()),
    "trace": lambda: trace.build_document(sample_trace_analysis.realistic()),
    "ranks": lambda: trace.build_document(sample_trace_analysis.many_ranks()),
    "memory": lambda: memory.build_document(sample_memory_analysis.out_of_memory()),
    "check": lambda: check.build_document(sample_checks.every_verdict()),
}
FILL = Fill(BLUE, "/")


def charts(document: Document) -> list[Chart]:
    return [time_bars.build_chart(block) for block in blocks(document).values() if isinstance(block, Bars | Chart)]


def drawn(drawing: dict[str, Any], **chart: Any) -> matplotlib.figure.Figure:
    return draw_chart(Chart(id="one", figure=drawing, label="", **chart))


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.nightly) if kind == "ranks" else kind for kind in DOCUMENTS]
)
def test_every_chart_is_drawn_with_all_of_its_traces(kind: str) -> None:
    some = charts(DOCUMENTS[kind]())
    assert some
    for chart in some:
        made = draw_chart(chart)
        shown = [each for each in chart.figure["data"] if each.get("visible", True)]
        kinds = [each["type"] for each in shown]
        collections = [each for axes in made.axes for each in axes.collections]
        bar_traces = [each for each in collections if type(each) is PolyCollection]
        assert len(bar_traces) == kinds.count("bar")
        if not any("symbol" in each.get("marker", {}) and isinstance(each["marker"]["symbol"], list) for each in shown):
            dots = [each for each in collections if isinstance(each, PathCollection)]
            assert len(dots) == sum("markers" in each.get("mode", "") for each in shown)
        texts = {text.get_text() for axes in made.axes for text in axes.texts}
        for note in chart.figure["layout"].get("annotations", ()):
            assert not note["text"] or strip_markup(note["text"], 80) in texts
        legend = {text.get_text() for text in made.legends[0].texts}
        assert {strip_markup(name) for name, *_ in chart.legend} <= legend


def test_a_history_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("ruptures")
    past = write_past(tmp_path / "past", noisy_steps([(18, 0.1), (12, 0.11)], 0.01, 3), peaks=[2**30] * 30)
    (first, *_) = charts(history.build_document(read_history(past)))
    content = io.BytesIO()
    draw_chart(first).savefig(content, format="png")
    content.seek(0)
    assert imread(content).std() > 0.01  # not a blank sheet


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        ({"type": "pie"}, {}),
        ({"type": "histogram", "x": [1]}, {}),
        (build_scatter("lines", [1], [1], line={"color": BLUE, "dash": "wavy"}), {}),
        (build_scatter("markers", [1], [1], marker={"color": BLUE, "size": 3, "symbol": "hourglass"}), {}),
        (build_scatter("steps", [1], [1]), {}),
        (build_scatter("lines", [1], [1], fill="tonexty", fillcolor=BLUE), {}),
        (build_bars(FILL, [1], [1], [""]), {"xaxis": {"type": "date"}}),
        (build_bars(FILL, [1], [1], [""]), {"yaxis": {"tickformat": "%"}}),
        (build_bars(FILL, [1], [1], [""]), {"shapes": [{"type": "circle"}]}),
    ],
)
def test_what_is_not_known_here_is_refused(data: dict[str, Any], layout: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        drawn(build_figure([data], **layout))


def test_stacks_lie_on_each_other_and_rows_are_in_the_order_of_their_names() -> None:
    margin = {"l": 9, "r": 9, "t": 9, "b": 9}
    parts = [build_row_bars(FILL, [("b", 2.0, "")]), build_row_bars(FILL, [("a", 1.0, ""), ("b", 3.0, "")])]
    (axes,) = drawn(build_row_figure(parts, ["a", "b"], margin=margin, barmode="stack", xaxis={"range": [0, 10]})).axes
    first, second = (each for each in axes.collections if isinstance(each, PolyCollection))
    assert [path.get_extents().bounds for path in first.get_paths()] == [pytest.approx((0, 0.77, 2, 0.46))]
    assert [path.get_extents().bounds for path in second.get_paths()] == [
        pytest.approx((0, -0.23, 1, 0.46)),
        pytest.approx((2, 0.77, 3, 0.46)),
    ]
    assert axes.get_ylim() == (1.5, -0.5)  # the first row is at the top


def test_layers_that_are_off_are_left_out() -> None:
    dots = [build_scatter("markers", [1], [1], marker={"color": BLUE, "size": 9}, visible=on) for on in (True, False)]
    assert len(drawn(build_figure(dots)).axes[0].collections) == 1


def test_logarithmic_axes_have_their_ranges_and_notes_as_powers() -> None:
    note = {"x": 1.0, "y": 2.0, "text": "here", "showarrow": False}
    log = build_axis("", type="log", range=[0, 3])
    (axes,) = drawn(build_figure([], xaxis=log, yaxis=log, annotations=[note])).axes
    assert axes.get_xlim() == pytest.approx((1, 1000))
    assert axes.texts[0].xy == (10.0, 100.0)


def test_ranges_from_zero_and_names_of_dots_that_do_not_hide_each_other() -> None:
    style = {"marker": {"color": BLUE, "size": 9}, "text": ["same"], "textposition": "top center"}
    dots = [build_scatter("markers+text", [5], [5], **style) for _ in range(2)]
    (axes,) = drawn(build_figure(dots, xaxis={"rangemode": "tozero"})).axes
    assert axes.get_xlim()[0] == 0
    first, second = (text.get_window_extent() for text in axes.texts)
    assert not first.overlaps(second)


def test_text_is_read_as_plotly_reads_it() -> None:
    assert strip_markup("&lt;b&gt; <i>a</i><br>$1 &amp; $2") == "<b> a\n\\$1 & \\$2"
    assert strip_markup("x" * 50) == "x" * 35 + "…"
