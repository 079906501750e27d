"""Waits that a trace states: which kernel is waited for does not follow from the order of calls."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.replay.device_activities import collect_device_activities
from perfkit.analysis.replay.edges import EdgeKind
from perfkit.analysis.replay.recorded_waits import has_recorded_waits, match_host_waits, match_stream_waits
from perfkit.analysis.replay.replay import ReplayResult, simulate_what_if
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.synthetic_machine import changes
from tests.fixtures.synthetic_machine.machine import run, span_ns
from tests.fixtures.synthetic_machine.program import Instruction, Program, Work
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.synthetic_machine.replayed import replayed_program
from tests.unit.trace.readers.kineto.test_sync_records import call, kernel, sync, written

MAIN, OTHER, SIDE = range(3)


def _op(ns: int, stream: int) -> Instruction:
    return Instruction("op", before=5_000, after=2_000, work=[Work(stream, "gemm", ns, 2_000, 1_000)])


def _crossed() -> Program:
    """The side stream waits for the main one; between that event's record and the wait others are launched."""
    made = []
    for number in range(50):
        made += [
            _op(60_000, MAIN),
            Instruction("record", before=1_000, stream=MAIN, event=2 * number),
            _op(5_000, OTHER),
            Instruction("record", before=1_000, stream=OTHER, event=2 * number + 1),
            Instruction("wait", before=1_000, stream=SIDE, event=2 * number),
            _op(5_000, OTHER),
            _op(10_000, SIDE),
            Instruction("record", before=1_000, stream=SIDE, event=1000 + number),
            _op(5_000, OTHER),
            Instruction("wait", before=1_000, stream=MAIN, event=1000 + number),
        ]
    return Program([[made]])


def _between(replayed: ReplayResult) -> set[tuple[int, int]]:
    """The lanes between which streams wait."""
    graph = replayed.graph
    rows = np.flatnonzero(graph.edges.kind == EdgeKind.EVENT)
    lane = graph.device.lane
    source, target = graph.edges.source[rows] - graph.first_kernel, graph.edges.target[rows] - graph.first_kernel
    return set(zip(lane[source].tolist(), lane[target].tolist(), strict=True))


def test_stated_waits_take_the_place_of_those_that_calls_suggest(tmp_path: Path) -> None:
    made = _crossed()
    replayed = replayed_program(made, tmp_path, syncs=True)
    assert _between(replayed) == {(MAIN, SIDE), (SIDE, MAIN)}
    assert _between(replayed_program(made, tmp_path)) != {(MAIN, SIDE), (SIDE, MAIN)}
    assert abs(replayed.result.error) < 0.001
    slower = span_ns(run(changes.kernels(2)(made)))
    gain = simulate_what_if(replayed, "kernels=2").gain_s
    assert gain is not None
    assert replayed.result.replayed_s - gain == pytest.approx(slower / 1e9, rel=0.005)


@pytest.mark.parametrize("seed", range(20_000, 20_006))
def test_where_calls_suggest_the_truth_stated_waits_are_the_same(seed: int, tmp_path: Path) -> None:
    made = program(seed)
    stated, suggested = (replayed_program(made, tmp_path, syncs=syncs) for syncs in (True, False))
    assert stated.result.replayed_s == pytest.approx(suggested.result.replayed_s, rel=1e-3)
    assert simulate_what_if(stated, "kernels=0.5").share == pytest.approx(
        simulate_what_if(suggested, "kernels=0.5").share, abs=0.01
    )


def _waits(tmp_path: Path, source: int, record: int) -> tuple[bool, list[int]]:
    """Whether a wait is stated, and the kernels that it is for."""
    events = [
        call(1, "cudaLaunchKernel", 0), kernel(1, 7, 20, 500),
        call(2, "cudaEventRecord", 10),
        call(3, "cudaStreamWaitEvent", 14), sync("Stream Wait Event", 3, 14, stream=20, source=source, record=record),
        call(4, "cudaLaunchKernel", 18), kernel(4, 20, 522, 100),
        call(5, "cudaEventRecord", 25),
    ]  # fmt: skip
    ops = read_ops(read_trace(written(tmp_path, events)))
    return has_recorded_waits(ops), match_stream_waits(ops, collect_device_activities(ops))[0].tolist()


def test_a_wait_whose_stream_is_not_told_is_not_stated(tmp_path: Path) -> None:
    """As torch's own CUPTI backend writes it."""
    assert _waits(tmp_path, source=7, record=2) == (True, [0])
    assert _waits(tmp_path, source=-1, record=2) == (False, [])


def test_a_record_after_the_wait_is_of_another_use_of_the_event(tmp_path: Path) -> None:
    assert _waits(tmp_path, source=7, record=5) == (True, [])


def test_the_host_waits_for_an_event_and_for_a_stream(tmp_path: Path) -> None:
    events = [
        call(1, "cudaLaunchKernel", 0), kernel(1, 7, 20, 500),
        call(2, "cudaEventRecord", 10),
        call(3, "cudaLaunchKernel", 12), kernel(3, 7, 521, 100),
        call(4, "cudaLaunchKernel", 30), kernel(4, 20, 40, 900),
        call(5, "cudaEventSynchronize", 50, 475), sync("Event Sync", 5, 50, stream=-1, source=7, record=2),
        call(6, "cudaStreamSynchronize", 530, 415), sync("Stream Sync", 6, 530, stream=20),
        call(7, "cudaStreamSynchronize", 950, 5),
    ]  # fmt: skip
    ops = read_ops(read_trace(written(tmp_path, events)))
    device = collect_device_activities(ops)
    calls = np.asarray([ops.trace.correlation.tolist().index(number) for number in (5, 6, 7)])
    rows = match_host_waits(ops, device, calls).tolist()
    assert [int(device.begun[row]) if row >= 0 else None for row in rows] == [20_000, 40_000, None]
