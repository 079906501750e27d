import json
import math

import msgspec
import plotly.graph_objects as go
import pytest

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis
from perfkit.core.units import format_seconds
from perfkit_reports.charts import time_bars
from perfkit_reports.charts.frame import Figure, escape_text, format_hover
from perfkit_reports.charts.roofline import describe_omissions
from perfkit_reports.document.blocks import Bars, Chart
from perfkit_reports.subjects.suite.chart_styles import build_plane
from perfkit_reports.subjects.suite.suite_document import build_document
from tests.fixtures.document_blocks import blocks
from tests.fixtures.sample_analysis import HOSTILE


def all_figures(analysis: Analysis) -> dict[str, Figure]:
    """Those of the report, by the names of their blocks."""
    found = blocks(build_document(analysis)).items()
    return {name: time_bars.build_chart(block).figure for name, block in found if isinstance(block, Bars | Chart)}


def test_every_figure_is_valid_plotly(analysis: Analysis) -> None:
    for figure in all_figures(analysis).values():
        go.Figure(figure)  # raises on an unknown name or a bad value


def test_all_figures_are_drawn_where_there_is_data_and_none_where_there_is_not(
    realistic: Analysis, nothing_measured: Analysis
) -> None:
    names = set(all_figures(realistic))
    assert {
        "pareto",
        "roofline",
        "time-split",
        "memory-peak",
        "step-times",
        "warm-up",
        "losses",
        "memory-timeline-0",
    } <= names
    assert all_figures(nothing_measured) == {}


def test_bars_of_variants_are_as_long_as_their_steps(realistic: Analysis) -> None:
    totals: dict[str, float] = {}
    for trace in all_figures(realistic)["time-split"]["data"]:
        for name, share in zip(trace["y"], trace["x"], strict=True):
            totals[name] = totals.get(name, 0.0) + share
    timed = {
        variant.name: variant.step_time.value
        for variant in realistic.variants
        if isinstance(variant.step_time, MedianEstimate)
    }
    assert {name.partition(",")[0]: 1e-3 * total for name, total in totals.items()} == pytest.approx(timed)
    assert list(totals) == [f"{name}, {format_seconds(step_s)}" for name, step_s in timed.items()]


def test_bars_of_memory_sum_to_the_peak(realistic: Analysis) -> None:
    figure = all_figures(realistic)["memory-peak"]
    total = sum(x for trace in figure["data"] for name, x in zip(trace["y"], trace["x"], strict=True) if name == "amp")
    assert total == pytest.approx(412 * 0.74 / 1024)  # GiB: a variant that ran out of memory took 1.88


def test_the_pareto_line_joins_the_front_in_order(realistic: Analysis) -> None:
    line = all_figures(realistic)["pareto"]["data"][0]
    assert line["x"] == pytest.approx([412 * 0.46, 412 * 0.74])


def dots(figure: Figure, variant: str, kind: str) -> Figure:
    return next(trace for trace in figure["data"] if trace.get("meta") == {"series": variant, "kind": kind})


def shown(analysis: Analysis) -> tuple[str, ...]:
    return tuple(series.name for series in build_plane(analysis).series if series.shown)


def test_roofline_layers_carry_their_series_and_kind_and_start_with_baseline_and_winner(realistic: Analysis) -> None:
    figure = all_figures(realistic)["roofline"]
    assert shown(realistic) == ("baseline", "amp")
    assert dots(figure, "amp", "op")["visible"] is True
    assert dots(figure, "amp", "phase")["visible"] is False
    assert dots(figure, "ckpt", "op")["visible"] is False


def test_without_a_winner_the_first_two_layers_are_on(realistic: Analysis) -> None:
    slower = msgspec.structs.replace(realistic, variants=(realistic.variants[0], *realistic.variants[2:4]))
    assert shown(slower) == ("baseline", "ckpt")


def test_dots_area_is_in_proportion_to_time_and_hover_names_op_shapes_bound_and_gain(realistic: Analysis) -> None:
    trace = dots(all_figures(realistic)["roofline"], "baseline", "op")
    largest, fifth = trace["marker"]["size"][0], trace["marker"]["size"][4]
    assert (largest / fifth) ** 2 == pytest.approx(0.043 / 0.0165, rel=0.02)
    text = trace["hovertext"][0]
    for part in ("aten::mm", "[2048, 256] [256, 512]", "compute", "savings 12.5 ms"):
        assert part in text


def test_arrows_lead_from_the_baselines_step_to_each_variants(realistic: Analysis) -> None:
    figure = all_figures(realistic)["roofline"]
    arrows = {json.loads(item["name"])["series"]: item for item in figure["layout"]["annotations"] if item["showarrow"]}
    assert set(arrows) == {"amp", "ckpt", "flash", "compile", "amp+ckpt"}
    start, end = dots(figure, "baseline", "step"), dots(figure, "amp", "step")
    arrow = arrows["amp"]
    assert (arrow["ax"], arrow["ay"]) == pytest.approx((math.log10(start["x"][0]), math.log10(start["y"][0])))
    assert (arrow["x"], arrow["y"]) == pytest.approx((math.log10(end["x"][0]), math.log10(end["y"][0])))
    assert arrow["visible"] is True
    assert arrows["ckpt"]["visible"] is False


def test_ops_without_flops_have_no_dot(realistic: Analysis) -> None:
    without = [row for row in realistic.variants[0].ops if not row.flops]
    drawn = dots(all_figures(realistic)["roofline"], "baseline", "op")["x"]
    assert without
    assert len(drawn) == len(realistic.variants[0].ops) - len(without)
    assert all(intensity > 0 for intensity in drawn)
    assert describe_omissions(build_plane(realistic)) == ""


def test_text_for_plotly_is_escaped_and_short() -> None:
    assert escape_text("<b>a & b</b>\nc") == "&lt;b&gt;a &amp; b&lt;/b&gt; c"
    assert len(escape_text("x" * 99)) == 48
    assert format_hover("<i>", "", "y") == "<b>&lt;i&gt;</b><br>y"


def test_no_hostile_text_reaches_a_figure_unescaped(every_status: Analysis) -> None:
    for figure in all_figures(every_status).values():
        assert HOSTILE not in str(figure)
        assert "<img" not in str(figure)
