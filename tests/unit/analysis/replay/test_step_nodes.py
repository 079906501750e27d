"""Gains per step, with outliers and waits for data; times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.replay.replay import replay_trace, simulate_what_if
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

FETCH = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def build_step(number: int, at: float, wait: float) -> list[Event]:
    """A step that fetches for `wait`, then launches a forward kernel and, on autograd's thread, a backward one."""
    backward = at + wait + 70
    other = {"tid": 2}
    return [
        mark(f"ProfilerStep#{number}", at, wait + 600),
        mark(FETCH, at + 1, wait),
        op("aten::mm", at + wait + 5, 60),
        launch(2 * number + 1, at + wait + 10),
        kernel("gemm", 2 * number + 1, at + wait + 20, 200),
        {**op("autograd::engine::evaluate_function: MmBackward0", backward, 60), **other},
        {**launch(2 * number + 2, backward + 5), **other},
        kernel("gemm_backward", 2 * number + 2, at + wait + 220, 300),
        op("aten::add_", backward + 70, 400),
    ]


def build_steps(*waits: float) -> list[Event]:
    events: list[Event] = []
    at = 0.0
    for number, wait in enumerate(waits):
        events += build_step(number, at, wait)
        at += wait + 600
    return events


def test_a_gain_per_step_is_that_of_the_counted_steps(tmp_path: Path) -> None:
    waits = (90_000.0, *(2_000.0 if number % 4 == 2 else 50.0 for number in range(15)))
    path = write_trace(tmp_path / "t.json.gz", build_steps(*waits))
    (trace,) = analyze_traces([path]).traces
    assert ([step.number for step in trace.outlier_steps], len(trace.steps)) == ([0], 15)
    assert trace.gains is not None
    mean = sum(waits[1:]) / 15 * 1e-6
    assert trace.gains.by_finding["data.starved"] == pytest.approx(mean, rel=0.05)
    replayed = replay_trace(read_ops(read_trace(path)))
    assert replayed is not None
    changed = simulate_what_if(replayed, "host=0.5")
    assert changed.step_gain_s is not None
    assert 0 < changed.step_gain_s < trace.step_s < (changed.gain_s or 0.0)
