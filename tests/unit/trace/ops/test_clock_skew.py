"""Devices whose clock disagrees with the CPU's; times in microseconds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from perfkit.analysis.model.idle import ELSEWHERE
from perfkit.analysis.model.time_split import IDLE_UNKNOWN, WAITING_FOR_CPU
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace

KERNELS, STEPS, STEP = 40, 3, 30_000


def write(tmp_path: Path, early: Callable[[int], float]) -> Path:
    """Steps of kernels of 20 us, launched 50 us apart onto an idle device, that begin 6 us after their launch but for
    the skew. Then the host works elsewhere for the rest of the step."""
    events: list[Event] = []
    for step in range(STEPS):
        at = 1000 + step * STEP
        events += [mark(f"ProfilerStep#{step}", at, STEP), op("my::lookup", at + 2_200, 26_000)]
        for index in range(KERNELS):
            number = step * KERNELS + index
            begin = at + 10 + 50 * index
            events += [
                op("aten::mm", begin, 12),
                launch(number + 1, begin + 2, 5),
                kernel("gemm", number + 1, begin + 8 - early(number), 20),
            ]
    return write_trace(tmp_path / "t.json.gz", events)


def find_starts(ops: Ops) -> list[float]:
    return ((ops.trace.start_ns[ops.kernels.event] - ops.trace.start_ns[ops.kernels.launch]) / 1000).tolist()


def share(trace: RankTrace, category: str) -> float:
    return {part.category: part.seconds for part in trace.time_split}[category] * 1e6


def test_a_shift_of_all_kernels_is_compensated(tmp_path: Path) -> None:
    path = write(tmp_path, lambda number: 30 + number % 3)
    ops = read_ops(read_trace(path))
    assert ops.skew is not None
    assert (ops.skew.size_ns, ops.skew.share, ops.skew.shifted_ns) == (26_000, 1.0, 26_000)
    assert sorted(set(find_starts(ops))) == [0.0, 1.0, 2.0]
    trace = analyze_trace(read_trace(path), None)
    assert share(trace, IDLE_UNKNOWN) == 0
    assert share(trace, WAITING_FOR_CPU) == pytest.approx(STEP - 20 * KERNELS, abs=2 * KERNELS + 40)


def test_where_only_some_begin_early_long_gaps_have_causes(tmp_path: Path) -> None:
    path = write(tmp_path, lambda number: 18 if number % 8 == 3 else 0)
    ops = read_ops(read_trace(path))
    assert ops.skew is not None
    assert (ops.skew.size_ns, ops.skew.share, ops.skew.shifted_ns) == (12_000, 1 / 8, 0)
    trace = analyze_trace(read_trace(path), None)
    assert trace.clock_skew is not None
    assert (trace.clock_skew.size_s, trace.clock_skew.least_gap_s) == (12e-6, 120e-6)
    (longest, *_) = [row for row in trace.gaps if row.cause == ELSEWHERE]
    assert (longest.op, longest.seconds) == ("my::lookup", pytest.approx((STEP - 50 * KERNELS + 24) * 1e-6, rel=0.35))
    assert share(trace, IDLE_UNKNOWN) == pytest.approx(30 * (KERNELS - 1), rel=0.1)
    findings = collect_trace_findings((trace,), None, None)
    (skew,) = [each for each in findings if each.id == "limit.clock_skew"]
    assert skew.figures == {"size_s": 12e-6, "share": 1 / 8, "least_gap_s": 120e-6}
    assert "idle.long_gaps" in [each.id for each in findings]


def test_a_clock_that_drifts_is_not_shifted(tmp_path: Path) -> None:
    ops = read_ops(read_trace(write(tmp_path, lambda number: 40 * number / (STEPS * KERNELS))))
    assert ops.skew is not None
    assert ops.skew.size_ns > 30_000
    assert ops.skew.shifted_ns == 0


def test_a_few_wrong_launches_are_no_skew(tmp_path: Path) -> None:
    assert read_ops(read_trace(write(tmp_path, lambda number: 500 if number in (7, 90) else 0))).skew is None
