"""Clipping that is repeated before one update, and what is like it."""

from typing import Any

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.model.time_split import PYTHON
from perfkit.analysis.pipeline.trace_findings import collect_trace_findings
from tests.fixtures.rank_traces import rank_trace, row, split


def _find(*rows: OpRow, **changes: Any) -> Finding | None:
    parts = split(**{"memory-bound": 0.8, PYTHON: 0.2})
    trace = rank_trace(device="cpu", launches=None, ops=rows, time_split=parts, **changes)
    return next((one for one in collect_trace_findings((trace,), None, None) if one.id == "clip.repeated"), None)


def _clip(times: float, *, phase: str = "", dtype: str = "fp32") -> tuple[OpRow, ...]:
    return (
        row("aten::linalg_vector_norm", 0.04, phase="", shapes=f"{dtype}[8,8]", calls=10 * times),
        row("aten::reciprocal", 0.001, phase="", shapes=f"{dtype}[]", calls=times),
        row("aten::clamp", 0.001, phase="", shapes=f"{dtype}[]", calls=times),
        row("aten::mul_", 0.04, phase=phase, shapes=f"{dtype}[8,8] {dtype}[]", calls=10 * times),
    )


UPDATE = row("aten::_fused_adamw_", 0.1, phase="optimizer", shapes="fp32[8,8] x10 fp32[8,8] x10")


def test_all_calls_but_one_go() -> None:
    finding = _find(*_clip(4.0), UPDATE)
    assert finding is not None
    assert finding.figures["times"] == pytest.approx(4.0)
    assert finding.gain_s == pytest.approx(0.75 * (finding.figures["time_s"] + finding.figures["python_s"]))


def test_one_clip_of_all_or_of_each_part_is_no_finding() -> None:
    assert _find(*_clip(1.0), UPDATE) is None
    halves = (*_clip(2.0)[:3], row("aten::mul_", 0.04, phase="", shapes="fp32[8,8] fp32[]", calls=10.0))
    assert _find(*halves, UPDATE) is None


def test_weight_decay_and_updates_without_clipping_are_none() -> None:
    decay = row("aten::mul_", 0.2, phase="optimizer", shapes="fp32[8,8] fp64[]", calls=20.0)
    assert _find(*_clip(1.0), UPDATE, decay) is None
    scaled = row("aten::mul_", 0.2, phase="", shapes="fp32[8,8] fp32[]", calls=40.0)
    assert _find(scaled, UPDATE) is None
    assert _find(*_clip(4.0)) is None


def _clip_many(times: float) -> tuple[OpRow, ...]:
    """40 gradients, whose lists a trace leaves out."""
    norms, *factors, _ = _clip(times)
    return (
        row(norms.name, 0.1, phase="", shapes="fp32[8,8]", calls=40 * times),
        row(norms.name, 0.01, phase="", shapes="fp32[40]", calls=times),
        *factors,
        row("aten::_foreach_mul_", 0.05, phase="optimizer", shapes="fp32[]", calls=times),
    )


def test_long_lists_are_counted_by_their_norms() -> None:
    counters = row("aten::add_", 0.01, phase="optimizer", shapes="fp32[]", calls=40.0)
    finding = _find(*_clip_many(3.0), counters)
    assert finding is not None
    assert finding.figures["times"] == pytest.approx(3.0)
    assert _find(*_clip_many(1.0), counters) is None
    two_models = row("aten::add_", 0.01, phase="optimizer", shapes="fp32[]", calls=80.0)
    assert _find(*_clip_many(2.0), two_models) is None
    assert _find(*_clip_many(3.0)) is None
