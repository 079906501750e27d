"""The ends of ranges: what goes for certain, what a fix touches, and the spread of the traced steps."""

import math

import pytest

from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.trace import GraphWork, Recompute, StepRow
from perfkit.analysis.trace.findings.gain_ranges import (
    estimate_refill_s,
    measure_step_error,
    range_gains,
    scale_range,
)
from tests.fixtures.rank_traces import row


def _steps(*seconds: float) -> list[StepRow]:
    return [StepRow(number=number, seconds=length, start_s=0.0, time_split=()) for number, length in enumerate(seconds)]


def _range(low: float, high: float | None, *, error: float, simulated_s: float | None = None) -> GainRange:
    finding = Finding(
        id="x", severity="gain", title="", variant="", evidence="", action="", gain_s=high, simulated_s=simulated_s
    )
    gain = GainRange(unit="s", low=low, high=high, basis="bound")
    [ranged] = range_gains(finding, [gain], error, step_s=1.0).gains
    return ranged


def test_others_read_again_what_was_displaced() -> None:
    slow = row("aten::copy_", 0.3, bytes=2e9)
    assert estimate_refill_s([slow], 1e10) == pytest.approx(0.2)
    assert estimate_refill_s([slow], None) == 0.0
    in_cache = row("aten::cat", 0.1, bytes=2e9, calls=100.0)
    assert estimate_refill_s([in_cache], 1e10) == pytest.approx(0.002)
    assert estimate_refill_s([GraphWork(ops=4, seconds=0.3, bytes=2e9)], 1e10) == pytest.approx(0.2)
    assert estimate_refill_s([Recompute(ops=4, seconds=0.3, flops=1.0)], 1e10) == 0.0


def test_the_error_of_a_mean_step_is_student_s() -> None:
    assert measure_step_error(_steps(1.0, 2.0)) == 0.0
    assert measure_step_error(_steps(1.0, 1.0, 1.0)) == 0.0
    assert measure_step_error(_steps(0.9, 1.0, 1.1)) == pytest.approx(4.3027 * 0.1 / math.sqrt(3), rel=1e-4)


def test_a_range_is_wider_by_the_error_and_no_wider_than_the_step() -> None:
    wider = _range(0.2, 0.4, error=0.1)
    assert [wider.low, wider.high] == pytest.approx([0.18, 0.44])
    assert _range(0.0, 0.95, error=0.1).high == 1.0
    assert _range(0.0, 2.0, error=0.1).high == 2.0
    assert _range(0.5, None, error=0.1).high is None
    assert _range(0.0, 0.2, error=0.0, simulated_s=0.3).high == 0.3


def test_ranges_of_time_follow_the_clock() -> None:
    assert scale_range(GainRange(unit="s", low=0.1, high=None, basis="bound"), 2.0).low == pytest.approx(0.2)
    memory = GainRange(unit="bytes", low=1, high=2, basis="bound")
    assert scale_range(memory, 2.0) == memory
