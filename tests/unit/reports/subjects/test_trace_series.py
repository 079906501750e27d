import msgspec

from perfkit.analysis.model.trace import MOST_POINTS
from perfkit_reports.charts.roofs import build_roofs
from perfkit_reports.palette import NEUTRAL
from perfkit_reports.subjects.trace.series import (
    build_plane,
    build_step_bars,
    build_stream_bars,
    build_trace_bars,
    choose_focus_trace,
    list_detailed_traces,
)
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.figures import list_figures


def test_the_trace_to_look_at_is_the_changed_one_then_the_straggler_then_the_first() -> None:
    whole = sample.realistic()
    labels = [
        (found := choose_focus_trace(analysis)) and found.label
        for analysis in (whole, msgspec.structs.replace(whole, difference=None), sample.alone())
    ]
    assert labels == ["rank 0", "rank 1", "rank 0"]
    assert choose_focus_trace(msgspec.structs.replace(sample.alone(), traces=())) is None


def test_the_one_before_a_change_comes_second_in_neutral_with_an_arrow_from_it() -> None:
    assert [trace.label for trace in list_detailed_traces(sample.realistic())] == ["rank 0", "main rank 0", "rank 1"]
    first, second, third = build_plane(sample.realistic()).series
    assert (first.origin, second.origin, third.origin) == ("main rank 0", "", "")
    assert second.style.color == NEUTRAL
    assert [series.shown for series in (first, second, third)] == [True, True, False]


def test_of_many_ranks_only_a_few_are_drawn_in_detail() -> None:
    assert len(build_plane(sample.many_ranks()).series) == 4
    bars = build_trace_bars(sample.many_ranks())
    assert [bar.name.split(",")[0] for bar in bars] == ["slowest: rank 63", "median: rank 31", "fastest: rank 0"]


def test_only_the_longest_ops_are_drawn() -> None:
    row = next(row for row in sample.trace("rank 0", 0).ops if row.flops_per_s and row.unit)
    many = tuple(msgspec.structs.replace(row, seconds=float(place)) for place in range(MOST_POINTS + 9))
    points = build_plane(sample.alone(ops=many, summary=(), kernels=(), level_points=())).series[0].points
    assert len(points) == MOST_POINTS
    assert min(point.seconds for point in points) == 9.0


def test_bars_of_steps_and_streams_are_named_apart() -> None:
    trace = sample.trace("rank 0", 0)
    assert [bar.name for bar in build_step_bars(trace)] == ["step 10, 35.6 ms", "step 11, 34.6 ms", "step 12, 34.6 ms"]
    streams = [bar.name for bar in build_stream_bars(trace)]
    assert [list_figures(name) for name in streams] == [["7", "900", "75.0 ms"], ["20", "90", "31.4 ms"]]
    assert {name.split()[0] for name in streams} == {"stream"}
    assert build_stream_bars(msgspec.structs.replace(trace, device="cpu"))[0].name.startswith("thread 7: 900 ops")


def test_series_of_different_devices_are_held_against_their_own_roofs() -> None:
    whole = sample.realistic()
    half = tuple(msgspec.structs.replace(each, value=each.value / 2) for each in sample.ceilings().ceilings)
    slower = msgspec.structs.replace(sample.ceilings(), device_name="half a GPU", ceilings=half)
    other = msgspec.structs.replace(whole.traces[1], device_name="half a GPU", ceilings=slower)
    drawn = build_plane(msgspec.structs.replace(whole, traces=(whole.traces[0], other), difference=None))
    assert {device.name for device in drawn.devices} == {"NVIDIA H100 80GB HBM3", "half a GPU"}
    memory = {roof.device: roof for roof in build_roofs(drawn) if roof.name == "memory"}
    high, low = memory["NVIDIA H100 80GB HBM3"], memory["half a GPU"]
    assert high.ceiling.value == 2 * low.ceiling.value
    assert (high.below, low.below) == (False, True)
    assert high.color != low.color
    assert low.label.startswith("half a GPU: memory ")


def test_roofs_of_one_device_do_not_name_it() -> None:
    assert {roof.device for roof in build_roofs(build_plane(sample.alone()))} == {""}


def test_one_series_alone_has_circles() -> None:
    assert build_plane(sample.alone()).series[0].style.symbol == "circle"
