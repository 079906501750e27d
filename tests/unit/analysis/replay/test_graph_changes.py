"""What goes of a thread's time: what lies in several spans goes once, and changes multiply."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.replay.graph_changes import NOTHING, build_removed_time
from perfkit.analysis.replay.replay import ReplayResult, replay_trace, simulate_what_if
from perfkit.core.errors import UsageError
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(values, np.int64)


def test_what_lies_in_several_spans_goes_once() -> None:
    gone = build_removed_time(ints(0, 10, 20, 200), ints(100, 60, 30, 210), np.asarray([0.5, 0.25, 0.75, 1.0]))
    assert gone.sum_until(ints(0, 10, 20, 30, 100, 205, 900)).tolist() == [0, 5, 10, 17.5, 52.5, 57.5, 62.5]


def test_what_takes_longer_is_negative() -> None:
    assert build_removed_time(ints(0, 10), ints(100, 60), np.asarray([-1.0, -1.0])).sum_until(ints(100)).tolist() == [
        -100
    ]


def test_changes_take_their_share_of_what_others_leave() -> None:
    half = build_removed_time(ints(0), ints(100), np.asarray([0.5]))
    more = NOTHING.combine_with(half).combine_with(build_removed_time(ints(50), ints(200), np.asarray([0.5])))
    assert more.sum_until(ints(50, 100, 200)).tolist() == [25, 62.5, 112.5]


def replayed(tmp_path: Path, *events: Event) -> ReplayResult:
    found = replay_trace(read_ops(read_trace(write_trace(tmp_path / "t.json.gz", events))))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("change", "gain_us"),
    [
        ("aten::linear=0", 300),
        ("aten::*=0.5", 150),  # not what lies within aten::linear again
        ("aten::linear=0,aten::addmm=0", 300),
        ("aten::linear=0.5,aten::addmm=0.5", 200),
        ("aten::linear=2", -300),
        ("range:forward=0", 400),
        ("range:forward=0,aten::linear=0", 400),
        ("range:forward=0.5,aten::*=0", 350),
    ],
)
def test_nested_ops_of_a_cpu_go_once(change: str, gain_us: float, tmp_path: Path) -> None:
    found = replayed(
        tmp_path,
        mark("ProfilerStep#1", 0, 1000),
        mark("forward", 100, 400),
        op("aten::linear", 150, 300),
        op("aten::addmm", 200, 200),
    )
    gain = simulate_what_if(found, change).gain_s
    assert gain == pytest.approx(gain_us * 1e-6)


def test_a_range_holds_the_host_its_waits_and_what_it_launches(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 0, 1000),
        *(op("aten::mm", 10, 10), launch(1, 12), kernel("gemm", 1, 20, 60)),
        mark("check", 100, 500),
        *(op("aten::isfinite", 110, 10), launch(2, 112), kernel("test", 2, 120, 300)),
        {**launch(99, 130, 292), "name": "cudaStreamSynchronize", "args": {}},
        *(op("aten::mm", 700, 10), launch(3, 702), kernel("gemm", 3, 710, 290)),
    ]
    found = replayed(tmp_path, *events)
    assert abs(found.result.error) < 0.01
    assert simulate_what_if(found, "range:check=0").gain_s == pytest.approx(500e-6, rel=0.02)
    with pytest.raises(UsageError, match="range:checks"):
        simulate_what_if(found, "range:checks=0")
