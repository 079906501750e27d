from typing import Any

import msgspec
import plotly.graph_objects as go
import pytest

from perfkit.analysis.model.fleet import RankRow
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.analysis.ranks.grid import MOST_CELLS
from perfkit_reports.charts import rank_charts, rank_step_map, time_bars
from perfkit_reports.charts.change_charts import list_op_changes
from perfkit_reports.document.blocks import Bar, Bars, Chart, Figure
from perfkit_reports.subjects.trace import build_document
from tests.fixtures import rank_traces
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.document_blocks import blocks
from tests.fixtures.figures import list_figures
from tests.fixtures.sample_analysis import HOSTILE


def drawn(analysis: TraceAnalysis) -> dict[str, Figure]:
    """The figures of a report, bars of time among them, by the ids of their blocks."""
    found = blocks(build_document(analysis)).items()
    return {name: time_bars.build_chart(block).figure for name, block in found if isinstance(block, Bars | Chart)}


def _texts(part: object, read: bool = False) -> list[str]:
    """The strings of a figure that plotly draws; names of series and categories only link its parts."""
    if isinstance(part, dict):
        drawn_keys = ("text", "hovertext", "ticktext", "hovertemplate")
        return [text for key, value in part.items() for text in _texts(value, read or key in drawn_keys)]
    if isinstance(part, list):
        return [text for value in part for text in _texts(value, read)]
    return [part] if isinstance(part, str) and read else []


def test_every_figure_is_valid_plotly_and_holds_no_hostile_text(traces: TraceAnalysis) -> None:
    for figure in drawn(traces).values():
        go.Figure(figure)  # raises on an unknown name or a bad value
        assert not [text for text in _texts(figure) if HOSTILE in text or "<img" in text]


def test_figures_are_drawn_where_there_is_data_and_none_where_there_is_not() -> None:
    assert {"roofline", "time-split", "steps-time-0", "streams-time-2", "ranks-chart", "changes-chart"} <= set(
        drawn(sample.realistic())
    )
    assert drawn(sample.nothing()) == {}
    assert "ranks-chart" not in drawn(sample.alone())


def test_bars_of_time_sum_to_100_percent() -> None:
    totals: dict[str, float] = {}
    for trace in drawn(sample.realistic())["time-traces"]["data"]:
        for name, share in zip(trace["y"], trace["x"], strict=True):
            totals[name] = totals.get(name, 0.0) + share
    assert list(totals.values()) == pytest.approx([100.0] * 3)


def test_changes_sum_to_the_change_of_the_step() -> None:
    difference = sample.realistic().difference
    assert difference is not None
    rows = list_op_changes(difference)
    assert sum(seconds for _, seconds in rows) == pytest.approx(difference.after_step_s - difference.before_step_s)
    assert rows[0] == ("1. aten::_softmax (forward, blocks.*.attn)", pytest.approx(-6.2e-3 * 0.18))


def test_what_grew_and_what_shrank_are_told_apart_by_side_and_pattern() -> None:
    slower, faster, total = drawn(sample.realistic())["changes-chart"]["data"]
    assert slower["y"] == ["5. aten::item (forward)"]
    assert slower["x"] == pytest.approx([0.4])
    assert all(x <= 0 for x in faster["x"])
    assert slower["marker"]["pattern"]["shape"] != faster["marker"]["pattern"]["shape"]
    assert total["y"] == ["whole step"]


def test_parts_of_a_rank_sum_to_its_step_and_late_ranks_are_marked() -> None:
    bars = drawn(sample.realistic())["ranks-chart"]["data"]
    heights = [sum(column) for column in zip(*(bar["y"] for bar in bars if bar["type"] == "bar"), strict=True)]
    assert heights == pytest.approx([34.9, 34.9 * 1.06], rel=1e-4)
    assert bars[-1]["y"] == pytest.approx([0.0, 1.9])


def dots_of(figure: Any, kind: str) -> list[Any]:
    """The traces of a kind, one for each kind of work."""
    return [trace for trace in figure["data"] if trace.get("meta", {}).get("kind") == kind]


def test_dots_name_kernels_readably_with_shapes_and_gain() -> None:
    figure = drawn(sample.alone())["roofline"]
    dots = dots_of(figure, "kernel")
    assert all(trace["visible"] is True for trace in dots)
    (text,) = [text for trace in dots for text in trace["hovertext"] if "softmax_warp_forward" in text]
    for part in ("softmax_warp_forward&lt;float", "[8192, 2048]", "memory", "savings 4.29 ms"):
        assert part in text


def test_dots_show_even_where_work_is_a_small_part_of_the_step() -> None:
    trace = sample.trace("rank 0", 0)
    ops, kernels = (
        tuple(msgspec.structs.replace(row, share=row.share / 1000) for row in rows)
        for rows in (trace.ops, trace.kernels)
    )
    figure = drawn(sample.alone(ops=ops, kernels=kernels))["roofline"]
    assert max(size for dots in dots_of(figure, "kernel") for size in dots["marker"]["size"]) == pytest.approx(36.0)


def test_the_split_is_shown_before_and_after_a_change() -> None:
    names = {name for trace in drawn(sample.realistic())["time-traces"]["data"] for name in trace["y"]}
    before, now, other = sorted(names)
    assert (before.split(":")[0], list_figures(before)[-1]) == ("before", "41.2 ms")
    assert (now, other) == ("now: rank 0, 34.9 ms", "rank 1, 37.0 ms")


def test_counted_levels_of_memory_are_a_layer_of_their_own() -> None:
    first = next(row for row in sample.trace("rank 0", 0).kernels if row.intensity)
    assert first.intensity is not None
    levels = tuple(
        msgspec.structs.replace(first, level=level, intensity=first.intensity * factor)
        for level, factor in (("l1", 0.1), ("l2", 0.5), ("memory", 1.0))
    )
    figure = drawn(sample.alone(level_points=levels))["roofline"]
    (layer,) = dots_of(figure, "level")
    assert layer["visible"] is False
    assert len(set(layer["y"])) == 1
    assert layer["x"] == pytest.approx([first.intensity * factor for factor in (0.1, 0.5, 1.0)])


def test_a_name_that_two_changes_share_keeps_a_bar_for_each() -> None:
    difference = sample.realistic().difference
    assert difference is not None
    names = [name for name, _ in list_op_changes(difference)]
    assert len(names) == len(set(names))


def rank(place: int, **changes: object) -> RankRow:
    known = {"step_s": 1.0, "compute_s": 0.7, "communication_s": 0.2, "exposed_communication_s": 0.1, "idle_s": 0.2}
    rest = {"late_s": None, "clock_offset_s": None}
    return RankRow(label=f"rank {place}", rank=place, **{**known, **rest, **changes})  # type: ignore[arg-type]


def test_many_ranks_are_a_map_in_which_even_ranks_have_no_color() -> None:
    figure = drawn(sample.many_ranks())["ranks-chart"]
    split = sample.many_ranks().traces[0].time_split
    rows = {trace["name"]: trace["marker"]["color"] for trace in figure["data"]}
    assert set(rows) == {"step", *(share.category for share in split), "late at collectives"}
    assert all(len(colors) == 64 for colors in rows.values())
    fast, slow = (bytes.fromhex(rows["step"][place][1:]) for place in (0, -1))
    assert fast[0] < fast[2]  # blue
    assert slow[0] > slow[2]  # orange
    even = rank_charts.build_chart([rank(place) for place in range(20)], {}, "ranks").figure["data"]
    assert all(color == "#7d848f40" for trace in even for color in trace["marker"]["color"])
    assert "late at collectives" not in {trace["name"] for trace in even}


def test_a_rank_that_differs_stands_out_of_a_map() -> None:
    slow = [rank(place, step_s=2.0 if place == 7 else 1.0) for place in range(20)]
    (step,) = (trace for trace in rank_charts.build_chart(slow, {}, "ranks").figure["data"] if trace["name"] == "step")
    assert step["marker"]["color"] == ["#d55e00ff" if place == 7 else "#7d848f40" for place in range(20)]


def test_a_map_of_thousands_shows_the_ranks_furthest_from_the_median() -> None:
    slow = {11: 1.3, 2048: 0.8, 4090: 1.2}
    rows = [rank(place, step_s=slow.get(place, 1.0)) for place in range(4096)]
    chart = rank_charts.build_chart(rows, {}, "ranks")
    (step,) = (trace for trace in chart.figure["data"] if trace["name"] == "step")
    assert len(step["x"]) == 256
    assert {rows[place].label for place in slow} <= set(step["x"])
    assert "256 ranks" in chart.caption


def test_dots_of_a_trace_alone_are_colored_by_kind_of_work_with_switches() -> None:
    chart = blocks(build_document(sample.alone()))["roofline"]
    assert isinstance(chart, Chart)
    switches = {layer.value: layer.color for layer in chart.layers if layer.key == "work"}
    assert len(switches) > 2
    shown = {dots["meta"]["work"]: dots["marker"]["color"] for dots in dots_of(chart.figure, "kernel")}
    assert shown.items() <= switches.items()
    assert all(len(dots["customdata"]) == len(dots["x"]) for dots in dots_of(chart.figure, "kernel"))


def test_dots_of_several_traces_have_the_colors_of_these_and_that_is_said() -> None:
    chart = blocks(build_document(sample.realistic()))["roofline"]
    assert isinstance(chart, Chart)
    assert not [layer for layer in chart.layers if layer.key == "work"]
    assert "traces" in chart.caption


def test_bars_to_scale_are_as_long_as_what_they_take() -> None:
    bars = (Bar("a", rank_traces.split(0.2, computing=0.5, idle=0.5)), Bar("b", rank_traces.split(0.1, computing=1.0)))
    figure = time_bars.build_chart(Bars(id="x", title="", bars=bars, label="", to_scale=True)).figure
    computing = next(trace for trace in figure["data"] if trace["name"] == "computing")
    assert dict(zip(computing["y"], computing["x"], strict=True)) == {"a": 100.0, "b": 100.0}
    assert computing["text"] == ["100 ms", "100 ms"]
    assert figure["layout"]["xaxis"]["range"] == [0, 200.0]


def test_a_map_of_ranks_and_steps_shows_who_is_slow() -> None:
    ((step, _), (late, chart)) = rank_step_map.build_charts(sample.steps_of_ranks(), "map").options.items()
    assert step[0].startswith("Step")
    assert late[0].startswith("Straggler delay")
    assert isinstance(chart, Chart)
    go.Figure(chart.figure)
    rows = chart.figure["data"]
    assert len(rows) == 128  # of 256 ranks two a row
    assert len(rows) * len(rows[0]["x"]) <= MOST_CELLS
    assert "10 steps" in chart.caption
    assert "2 ranks" in chart.caption
    assert rows[96]["hovertext"][0] == "16.0 ms, rank 193"
    assert rows[96]["hovertemplate"].startswith("<b>rank 192 and the next 1, 10 steps from %{x}</b>")
    hottest = max((color, place) for place, row in enumerate(rows) for color in row["marker"]["color"][20:22])
    assert [place for place, row in enumerate(rows) if hottest[0] in row["marker"]["color"]] == [96]


def test_of_few_ranks_each_has_a_row_with_its_name() -> None:
    chart, _ = rank_step_map.build_charts(sample.steps_of_ranks(3, 20), "map").options.values()
    assert isinstance(chart, Chart)
    assert chart.figure["layout"]["yaxis"]["ticktext"] == ["rank 0", "rank 1", "rank 2"]
    assert "longest of" not in chart.caption
    # All wait for the one that is slow, so that their steps are alike.
    assert chart.figure["data"][0]["marker"]["color"] == chart.figure["data"][2]["marker"]["color"]
