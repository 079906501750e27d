"""Model against counters, and the levels of the hierarchical roofline, on a trace with counts of its own."""

from pathlib import Path

import numpy as np
import pytest

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.coverage import compute_weighted_quantiles
from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.counters.match_counters import read_counters
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.ncu_exports import BF16, FADD, FFMA, FMUL, L1, L2, READ, TIME, WRITE, raw_page
from tests.fixtures.rank_traces import ceilings
from tests.fixtures.traces import kernel, launch, mark, op, write_trace

GEMM = "ampere_sgemm_32x32_nn"
UNITS = {READ: "byte", WRITE: "byte", L1: "byte", L2: "byte", TIME: "nsecond"}


def analysed(tmp_path: Path, flops: int, read: int, written: int) -> RankTrace:
    """One product of 64 x 32 and 32 x 16 with these counts, in one step."""
    events = [mark("ProfilerStep#1", 0, 100), op("aten::mm", 10, 20, [[64, 32], [32, 16]])]
    events += [launch(1, 12), kernel(GEMM, 1, 40, 10)]
    counts = {FADD: "0", FMUL: "0", FFMA: str(flops // 2), BF16: "0", READ: str(read), WRITE: str(written)}
    counts |= {L2: "20000", L1: "40000", TIME: "10000"}
    export = tmp_path / "counters.csv"
    export.write_text(raw_page([(GEMM, counts)], UNITS))
    trace = read_trace(write_trace(tmp_path / "trace.json.gz", events))
    return analyze_trace(trace, ceilings(), counters=read_counters(export))


def test_counts_replace_the_model_and_the_ratio_is_told(tmp_path: Path) -> None:
    # The model: 2 * 64 * 32 * 16 FLOPs and 4 * (64 * 32 + 32 * 16 + 64 * 16) bytes.
    flops, moved = 65536, 14336
    found = analysed(tmp_path, flops=2 * flops, read=10000, written=4336)
    (row,) = (each for each in found.ops if each.name == "aten::mm")
    assert (row.flops, row.bytes) == (2 * flops, moved)
    assert found.coverage.counted_s == pytest.approx(10e-6)
    ratios = {each.quantity: each for each in found.coverage.model_error}
    assert ratios["FLOPs"].op_class == "GEMM"
    assert (ratios["FLOPs"].ratio, ratios["bytes"].ratio) == (0.5, 1.0)
    assert (ratios["FLOPs"].kernels, ratios["FLOPs"].seconds) == (1, pytest.approx(10e-6))


def test_a_counter_of_zero_has_no_ratio(tmp_path: Path) -> None:
    found = analysed(tmp_path, flops=0, read=0, written=0)
    assert found.coverage.model_error == ()


def test_a_kernel_has_a_dot_for_each_level(tmp_path: Path) -> None:
    found = analysed(tmp_path, flops=100_000, read=8000, written=2000)
    dots = {dot.level: dot for dot in found.level_points}
    assert {level: dot.intensity for level, dot in dots.items()} == {"l1": 2.5, "l2": 5.0, "memory": 10.0}
    assert dots["memory"].attainable_s == pytest.approx(10_000 / 1e12)
    assert dots["l1"].attainable_s is None
    assert all(dot.flops_per_s == pytest.approx(1e10) for dot in found.level_points)


def test_quantiles_weigh_by_time() -> None:
    values, weights = np.asarray([3.0, 1.0, 2.0]), np.asarray([8.0, 1.0, 1.0])
    assert compute_weighted_quantiles(values, weights, (0.1, 0.2, 0.5)) == (1.0, 2.0, 3.0)
    assert compute_weighted_quantiles(values, np.zeros(3), (0.5,)) == (2.0,)
