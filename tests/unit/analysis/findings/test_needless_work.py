"""Rules about needless work, on traces of a CPU made for them, and on those next to them."""

from typing import Any

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.time_split import PYTHON
from perfkit.analysis.model.trace import GraphWork, RankTrace, Recompute
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from perfkit.devices.ceilings.ceiling import CeilingLevel
from tests.fixtures.rank_traces import ceilings, rank_trace, row, split

PEAK = ceilings({(CeilingLevel.MATRIX, "fp32"): 1e11})


def on_cpu(*rows: Any, python: float = 0.0, **changes: Any) -> RankTrace:
    parts = split(**{"memory-bound": 1.0 - python, PYTHON: python})
    return rank_trace(device="cpu", launches=None, ops=rows, time_split=parts, ceilings=PEAK, **changes)


def of(trace: RankTrace, finding_id: str) -> Finding | None:
    found = [finding for finding in collect_trace_findings((trace,), None, None) if finding.id == finding_id]
    return found[0] if found else None


def bound(finding: Finding | None) -> float | None:
    """The most that the finding may gain."""
    assert finding is not None
    [gain] = finding.gains
    assert gain.low == 0.0
    return gain.high


def test_double_precision_may_save_all_of_its_time() -> None:
    double = row("aten::mm", 0.3, shapes="fp64[8,8] fp64[8,8]")
    assert bound(of(on_cpu(double), "dtype.fp64")) == pytest.approx(0.3)
    assert of(on_cpu(row("aten::mm", 0.3, shapes="fp32[8,8] fp64[]")), "dtype.fp64") is None


def test_half_precision_is_slow_only_beyond_the_peak_of_fp32() -> None:
    half = row("aten::addmm", 0.5, shapes="fp16[8,8] fp16[8,8]", dtype="fp16", flops=1e9)
    finding = of(on_cpu(half), "dtype.slow_half")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.49)
    assert of(on_cpu(row("aten::addmm", 0.5, dtype="fp16", flops=4e10)), "dtype.slow_half") is None
    assert of(on_cpu(row("aten::addmm", 0.5, dtype="bf16", flops=1e9)), "dtype.slow_half") is None


def test_repeated_calls_with_the_python_around_them() -> None:
    finding = of(on_cpu(row("aten::mul", 0.1, calls=64.0), python=0.3), "calls.repeated")
    assert bound(finding) == pytest.approx(0.4)
    assert of(on_cpu(row("aten::mul", 0.1, calls=48.0), python=0.3), "calls.repeated") is None
    assert of(rank_trace(ops=(row("aten::mul", 0.1, calls=64.0),)), "calls.repeated") is None


def test_a_product_with_one_hot_rows() -> None:
    made = row("aten::scatter_", 0.05, shapes="int64[32,1000] int64[32,1]")
    converted = row("aten::_to_copy", 0.05, shapes="int64[32,1000]")
    product = row("aten::mm", 0.2, shapes="fp32[32,1000] fp32[1000,64]")
    finding = of(on_cpu(made, converted, product), "gemm.one_hot")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.3)
    assert of(on_cpu(product), "gemm.one_hot") is None
    assert of(on_cpu(made, row("aten::mm", 0.2, shapes="fp32[32,64] fp32[64,64]")), "gemm.one_hot") is None


def test_a_product_with_a_matrix_filled_by_index() -> None:
    filled = row("aten::_index_put_impl_", 0.1, shapes="fp32[900,900] int64[50] int64[50] fp32[]")
    product = row("aten::mm", 0.4, shapes="fp32[900,900] fp32[900,64]")
    finding = of(on_cpu(filled, product), "gemm.scattered")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.5)
    assert of(on_cpu(product), "gemm.scattered") is None
    assert of(on_cpu(filled, row("aten::mm", 0.4, shapes="fp32[64,64] fp32[64,64]")), "gemm.scattered") is None


def test_an_inverse_with_the_algebra_around_it() -> None:
    inverse, factor = row("aten::linalg_inv_ex", 0.2, shapes="fp32[50,50]"), row("aten::linalg_lu_factor_ex", 0.1)
    backward = row("aten::mm", 0.1, shapes="fp32[50,50] fp32[50,50]", phase="backward")
    assert bound(of(on_cpu(inverse, factor, backward), "linalg.inverse")) == pytest.approx(0.4)
    assert of(on_cpu(factor, backward), "linalg.inverse") is None


def test_random_numbers() -> None:
    assert of(on_cpu(row("aten::normal_", 0.2)), "random.generation") is not None
    assert of(on_cpu(row("aten::native_dropout", 0.2)), "random.generation") is None


def test_metrics_are_outside_of_all_phases() -> None:
    model, sort = row("aten::mm", 0.4), row("aten::sort", 0.2, phase="")
    finding = of(on_cpu(model, sort), "step.metrics")
    assert finding is not None
    assert finding.gain_s == pytest.approx(0.2)
    assert of(on_cpu(model, row("aten::sort", 0.2)), "step.metrics") is None
    assert of(on_cpu(model, row("aten::mm", 0.2, phase="")), "step.metrics") is None


def test_anomaly_detection_checks_each_gradient() -> None:
    checks = (
        row("aten::isnan", 0.1, phase="backward", calls=20.0),
        row("aten::_local_scalar_dense", 0.01, phase="backward", calls=20.0),
    )
    assert of(on_cpu(*checks, python=0.2), "autograd.anomaly_detection") is not None
    assert of(on_cpu(*(row(check.name, 0.1, calls=20.0) for check in checks)), "autograd.anomaly_detection") is None


def test_graphs_without_use() -> None:
    work = GraphWork(ops=20, seconds=0.2)
    for field, finding_id in (
        ("unused_graph", "autograd.unused_graph"),
        ("repeated_backward", "autograd.repeated_backward"),
    ):
        finding = of(rank_trace(**{field: work}), finding_id)
        assert finding is not None
        assert finding.gain_s == pytest.approx(0.2)
        assert of(rank_trace(**{field: GraphWork(ops=1, seconds=0.001)}), finding_id) is None


def test_what_is_left_out_on_a_cpu_goes_for_certain() -> None:
    again = of(
        on_cpu(row("aten::mm", 0.5), repeated_backward=GraphWork(ops=20, seconds=0.2)), "autograd.repeated_backward"
    )
    assert again is not None
    assert [gain.low for gain in again.gains] == [pytest.approx(0.2)]
    recompute = Recompute(ops=1, seconds=0.2, flops=1.0, around_s=0.1)
    recomputed = of(on_cpu(row("aten::mm", 0.5), recompute=recompute), "checkpointing.recompute")
    assert recomputed is not None
    assert [(gain.low, gain.high) for gain in recomputed.gains] == [(pytest.approx(0.2), pytest.approx(0.3))]
    unused = of(on_cpu(row("aten::mm", 0.5), unused_graph=GraphWork(ops=20, seconds=0.2)), "autograd.unused_graph")
    assert bound(unused) == pytest.approx(0.2)


def test_copies_that_convert_nothing() -> None:
    assert of(on_cpu(row("aten::clone", 0.1)), "copy.materialized") is not None
    assert of(on_cpu(row("aten::_to_copy", 0.1)), "copy.materialized") is None
    assert of(on_cpu(row("aten::copy_", 0.1, shapes="fp32[8] bf16[8]")), "copy.materialized") is None
    assert of(on_cpu(row("aten::clone", 0.1, phase="optimizer")), "copy.materialized") is None
