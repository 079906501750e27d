import plotly.graph_objects as go
import pytest

from perfkit.analysis.model.memory_model import MemoryAccount, TimelineBand
from perfkit.core import allocations
from perfkit_reports.charts import bands, memory_peak, memory_steps, memory_timeline
from perfkit_reports.charts.frame import Figure
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder, list_device_holders
from perfkit_reports.palette import assign_fills, order_categories
from tests.fixtures import sample_accounts
from tests.fixtures import sample_memory_analysis as sample
from tests.fixtures.sample_analysis import HOSTILE

MIB = 2**20


def timeline(account: MemoryAccount) -> Figure:
    chart = memory_timeline.build_chart(Holder("a", account), 0)
    assert chart is not None
    return chart.figure


@pytest.mark.parametrize("name", ["realistic", "alone", "out_of_memory", "bare", "nothing", "hostile"])
def test_every_figure_is_valid_plotly(name: str) -> None:
    holders = list_device_holders(getattr(sample, name)().accounts)
    drawn = [
        memory_peak.build_chart(holders, "device", Weight.NORMAL, None),
        *(memory_timeline.build_chart(holder, 0) for holder in holders),
        *(memory_steps.build_chart(holder.account, 0, "") for holder in holders),
    ]
    assert (drawn[0] is not None) == (name != "nothing")
    for figure in (chart.figure for chart in drawn if chart is not None):
        go.Figure(figure)  # raises on an unknown name or a bad value
        for item in (*figure["data"], *figure["layout"].get("annotations", ())):
            assert HOSTILE not in str({**item, "y": ""})  # places on an axis without labels are no text


def test_every_category_has_a_look_of_its_own() -> None:
    fills = assign_fills(list(allocations.CATEGORIES))
    assert len(set(fills.values())) == len(allocations.CATEGORIES)
    for category in allocations.CATEGORIES:  # whatever else is drawn
        assert assign_fills([category])[category] == fills[category]
    assert order_categories([[allocations.TEMPORARY, allocations.ACTIVATION, allocations.PARAMETER]])[0] == "parameter"


def test_the_areas_reach_the_peak_where_its_point_is() -> None:
    figure = timeline(sample_accounts.every_category())
    areas = [trace for trace in figure["data"] if trace.get("stackgroup")]
    assert len(areas) == len(allocations.CATEGORIES)
    (point,) = (trace for trace in figure["data"] if trace["name"] == "peak")
    place = areas[0]["x"].index(pytest.approx(point["x"][0], abs=1e-3))
    assert sum(area["y"][place] for area in areas) == pytest.approx(point["y"][0], rel=1e-3)
    assert figure["layout"]["annotations"][0]["text"] == "peak 1.37 GiB<br>backward, 36 % of the step"


def test_the_hover_text_names_the_phase_and_the_module() -> None:
    figure = timeline(sample_accounts.step(412 * MIB))
    (total,) = (trace for trace in figure["data"] if trace["name"] == "total")
    assert total["customdata"][10] == "forward, h.0.attn"
    assert max(total["y"]) == pytest.approx(412)


def test_without_a_timeline_there_is_no_figure_and_without_bands_no_strip() -> None:
    bare = MemoryAccount(peak_bytes=MIB, peak_phase="", source="", categories=())
    assert memory_timeline.build_chart(Holder("a", bare), 0) is None
    plain = MemoryAccount(
        peak_bytes=MIB,
        peak_phase="",
        source="",
        categories=(),
        timeline_s=(0.0, 1.0),
        timeline_categories={"unknown": (0, MIB)},
    )
    assert "yaxis2" not in timeline(plain)["layout"]


def band(kind: str, name: str, low: float, high: float, depth: int = 0) -> TimelineBand:
    return TimelineBand(kind=kind, name=name, start_s=low, end_s=high, depth=depth)


def test_the_strip_has_steps_where_there_are_several_then_phases_then_modules_by_depth() -> None:
    one = [band("step", "3", 0, 1), band("phase", "forward", 0, 1), band("module", "a.b", 0, 1, 1)]
    one.append(band("module", "a", 0, 1))
    assert [(row.kind, row.bands[0].name) for row in bands.build_band_rows(one, 1.0)] == [
        ("phase", "forward"),
        ("module", "a"),
        ("module", "a.b"),
    ]
    assert bands.build_band_rows([*one, band("step", "4", 0.5, 1)], 1.0)[0].kind == "step"


def test_bands_beyond_the_timeline_or_too_narrow_to_see_are_left_out() -> None:
    rows = bands.build_band_rows(
        [band("phase", "a", -1, 0), band("phase", "b", 0.5, 0.5001), band("phase", "c", 0.9, 2)], 1.0
    )
    assert [each.name for each in rows[0].bands] == ["c"]
    (bar, _) = bands.build_band_traces(rows, 1.0, 1e-3)
    assert (bar["base"], bar["x"]) == ([900.0], [100.0])


def test_a_module_is_labelled_by_its_last_part() -> None:
    names = ("GPT_0/Block_3", "blocks.3", "blocks.3.mlp")
    strip = [
        bands.BandRow("module", tuple(band("module", name, 0.1 * at, 0.1 * at + 0.05) for at, name in enumerate(names)))
    ]
    (bar, _) = bands.build_band_traces(strip, 1.0, 1.0)
    assert bar["text"] == ["Block_3", "blocks.3", "mlp"]
