"""Kernels that end later than their stream allows; times in microseconds."""

from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def call(name: str, number: int, at: float) -> Event:
    return {**launch(number, at), "name": name}


def read(tmp_path: Path, events: list[Event]) -> Ops:
    return read_ops(read_trace(write_trace(tmp_path / "t.json.gz", [op("aten::mm", 0, 200.5), *events])))


def queue(name: str, *spans: tuple[float, float], stream: int = 7, first: int = 1) -> list[Event]:
    """Kernels with these starts and durations, each launched by a call of this name."""
    numbers = range(first, first + len(spans))
    return [call(name, number, number) for number in numbers] + [
        kernel(f"kernel {number}", number, start, duration, stream=stream)
        for number, (start, duration) in zip(numbers, spans, strict=True)
    ]


BACK_TO_BACK = [(100 + 50 * number, 50.0) for number in range(8)]


def find_ends(ops: Ops) -> list[float]:
    return ((ops.trace.end_ns - ops.trace.start_ns[0])[ops.kernels.event] / 1000).tolist()


@pytest.mark.parametrize("name", ["hipLaunchKernel", "cudaLaunchKernel", "cudaLaunchKernelExC"])
def test_a_kernel_that_outlasts_later_ones_ends_where_the_next_begins(name: str, tmp_path: Path) -> None:
    spans = [*BACK_TO_BACK[:3], (250, 190.0), *BACK_TO_BACK[4:]]
    ops = read(tmp_path, queue(name, *spans))
    assert ops.overruns.kernel.tolist() == [3]
    assert ops.overruns.excess_ns.tolist() == [140_000]
    assert find_ends(ops) == [150.0, 200.0, 250.0, 300.0, 350.0, 400.0, 450.0, 500.0]


@pytest.mark.parametrize(
    ("name", "overruns"),
    [
        ("hipModuleLaunchKernel", 1),  # what follows begins after it: there is no other launch
        ("cuMemcpyAsync", 1),
        ("cudaLaunchKernelExC", 0),  # what follows may begin early
        ("cuLaunchKernelEx", 0),
    ],
)
def test_only_dependent_launches_begin_before_the_end(name: str, overruns: int, tmp_path: Path) -> None:
    spans = [*BACK_TO_BACK[:3], (250, 90.0), (300, 100.0), *BACK_TO_BACK[6:]]
    assert len(read(tmp_path, queue(name, *spans)).overruns.kernel) == overruns


def test_overlaps_of_microseconds_are_none(tmp_path: Path) -> None:
    spans = [(start, duration + 8) for start, duration in BACK_TO_BACK]
    ops = read(tmp_path, queue("hipLaunchKernel", *spans))
    assert (len(ops.overruns.kernel), find_ends(ops)[0]) == (0, 158.0)


def test_branches_of_a_graph_and_streams_that_are_no_queues_keep_their_times(tmp_path: Path) -> None:
    branches = [call("cudaGraphLaunch", 1, 10), *(kernel("one", 1, 100 + 5 * index, 400) for index in range(3))]
    branches += [kernel("short", 1, 120 + 15 * index, 10) for index in range(9)]
    beside = queue("cudaLaunchKernel", *((100 + 20 * index, 300.0) for index in range(6)), stream=9, first=50)
    other = queue("cudaLaunchKernel", *BACK_TO_BACK, stream=11, first=80)
    assert len(read(tmp_path, [*branches, *beside, *other]).overruns.kernel) == 0


def test_their_time_is_unknown_and_no_finding_is_about_it(tmp_path: Path) -> None:
    events: list[Event] = []
    for step in range(3):
        at = step * 2000
        events.append(mark(f"ProfilerStep#{step}", at, 2000))
        for index in range(20):
            number = 20 * step + index + 1
            begin = at + 2 + 6 * index
            events += [
                op("aten::mm", begin, 5, [(512, 512), (512, 512)]),
                launch(number, begin + 1),
                kernel("ampere_sgemm_128x64_tn", number, at + 200 + 60 * index, 1_500 if index == 4 else 60),
            ]
    path = write_trace(tmp_path / "t.json.gz", events)
    (trace,) = (result := analyze_traces([path], device="a100-sxm-80gb")).traces
    found = trace.overrunning_kernels
    assert found is not None
    assert (found.kernels, found.recorded) == (3, 60)
    assert (found.clipped_s, found.excess_s, found.longest_s) == pytest.approx((180e-6, 3 * 1440e-6, 1440e-6))
    assert sum(row.seconds for row in trace.kernels) == pytest.approx(1200e-6)
    by_efficiency = {row.efficiency is None: (row.calls, row.seconds) for row in trace.gemms}
    assert by_efficiency == {True: (1, pytest.approx(60e-6)), False: (19, pytest.approx(1140e-6))}
    assert [row.flops_per_s is None for row in trace.kernels if row.calls == 1] == [True]
    assert trace.hardware_flops.value == pytest.approx(20 * 2 * 512**3)
    (finding,) = [each for each in result.findings if each.id == "limit.overrunning_kernels"]
    assert finding.figures == {"kernels": 3, "longest_s": found.longest_s, "excess_s": found.excess_s}
