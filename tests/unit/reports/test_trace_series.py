import msgspec

from perfkit_reports.palette import NEUTRAL
from perfkit_reports.trace_series import BARS, POINTS, detailed, focus, plane, step_bars, stream_bars, trace_bars
from tests.fixtures import sample_trace_analysis as sample


def test_the_trace_to_look_at_is_the_changed_one_then_the_straggler_then_the_first() -> None:
    whole = sample.realistic()
    labels = [
        (found := focus(analysis)) and found.label
        for analysis in (whole, msgspec.structs.replace(whole, difference=None), sample.alone())
    ]
    assert labels == ["rank 0", "rank 1", "rank 0"]
    assert focus(msgspec.structs.replace(sample.alone(), traces=())) is None


def test_the_one_before_a_change_comes_second_in_neutral_with_an_arrow_from_it() -> None:
    assert [trace.label for trace in detailed(sample.realistic())] == ["rank 0", "main rank 0", "rank 1"]
    first, second, third = plane(sample.realistic()).series
    assert (first.origin, second.origin, third.origin) == ("main rank 0", "", "")
    assert second.style.colour == NEUTRAL
    assert [series.shown for series in (first, second, third)] == [True, True, False]


def test_of_many_ranks_only_a_few_are_drawn_in_detail() -> None:
    assert len(plane(sample.many_ranks()).series) == 4
    bars = trace_bars(sample.many_ranks())
    assert len(bars) == BARS
    assert bars[-1].name.startswith("rank 63, ")


def test_only_the_longest_points_of_a_kind_are_drawn() -> None:
    trace = sample.trace("rank 0", 0)
    many = tuple(msgspec.structs.replace(trace.points[0], seconds=float(place)) for place in range(POINTS + 9))
    points = plane(sample.alone(points=many)).series[0].points
    assert len(points) == POINTS
    assert min(point.seconds for point in points) == 9.0


def test_bars_of_steps_and_streams_are_named_apart() -> None:
    trace = sample.trace("rank 0", 0)
    assert [bar.name for bar in step_bars(trace)] == ["step 10, 35.6 ms", "step 11, 34.6 ms", "step 12, 34.6 ms"]
    assert [bar.name for bar in stream_bars(trace)] == [
        "stream 7: 900 kernels, busy 75.0 ms",
        "stream 20: 90 kernels, busy 31.4 ms",
    ]
    assert stream_bars(msgspec.structs.replace(trace, device="cpu"))[0].name.startswith("thread 7: 900 ops")
