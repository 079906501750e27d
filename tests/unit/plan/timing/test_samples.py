"""The calls of a step, and those of one kind and size together."""

from math import log
from pathlib import Path

import pytest

from perfkit.analysis.trace.work.work_analysis import analyze_work
from perfkit.plan.target.work import Work
from perfkit.plan.timing.samples import TimedCall, collect_calls, make_samples
from tests.fixtures.plan_roofs import PEAK, roofs
from tests.fixtures.trace_events import event, inputs, ops_of


def _call(seconds: float, taken: float, calls: float = 1.0, op: str = "aten::mm") -> TimedCall:
    return TimedCall(Work("GEMM", "fp32", seconds * PEAK, 1.0, matrix=True, op=op), calls, taken)


def test_calls_of_one_op_and_size_are_one_sample() -> None:
    (sample,) = make_samples([_call(1.1e-3, 2.2e-3, calls=3), _call(1.2e-3, 4.8e-3)], roofs())
    assert sample.calls == 4
    assert sample.flops == pytest.approx((3 * 1.1e-3 + 1.2e-3) / 4 * PEAK)
    assert sample.seconds == pytest.approx((3 * 2.2e-3 + 4.8e-3) / 4)
    # Their times over their least times are 2, for 6.6 ms of 11.4, and 4 for 4.8 ms.
    share = 6.6 / 11.4
    assert sample.spread == pytest.approx(log(2) * (share * (1 - share)) ** 0.5)


def test_ops_and_sizes_are_apart() -> None:
    calls = [_call(1e-3, 2e-3), _call(1e-3, 2e-3, op="aten::bmm"), _call(4e-3, 8e-3)]
    assert len(make_samples(calls, roofs())) == 3


def test_what_does_nothing_is_no_sample() -> None:
    assert make_samples([TimedCall(Work("other", "fp32", 0.0, 0.0, matrix=False), 1.0, 1e-6)], roofs()) == ()


def test_the_calls_of_a_trace_are_its_ops_with_what_each_call_did_and_took(tmp_path: Path) -> None:
    product = inputs([4, 8], [8, 16])
    trace = ops_of(
        tmp_path,
        event("aten::mm", 0, 10, **product),
        event("aten::mm", 20, 30, **product),
        event("aten::view", 60, 5, **inputs([4, 8])),
        event("mine::op", 70, 5),
    )
    (call,) = collect_calls(analyze_work(trace, roofs()))
    assert call.work == Work("GEMM", "fp32", 2 * 4 * 8 * 16, 4 * (4 * 8 + 8 * 16 + 4 * 16), matrix=True, op="aten::mm")
    assert call.calls == 2
    assert call.seconds == pytest.approx(20e-6)
