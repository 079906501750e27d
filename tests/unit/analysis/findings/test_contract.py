"""The ranges of gains, by how each gain was obtained."""

import pytest

from perfkit.analysis.findings.contract import complete_findings
from perfkit.analysis.model.finding import Finding, GainRange
from perfkit.analysis.model.replay import TouchedTime
from perfkit.analysis.model.step import AT_LEAST


def _complete(**fields: object) -> Finding:
    finding = Finding(
        id="sync.item",
        severity="gain",
        title="",
        variant="rank 0",
        evidence="",
        action="",
        **fields,  # type: ignore[arg-type]
    )
    (completed,) = complete_findings([finding], lambda one: f"verify {one.variant}")
    return completed


def test_a_simulated_gain_is_at_most_what_the_change_removes() -> None:
    touched = TouchedTime(kernels_s=0.0, gaps_s=0.002, cpu_s=0.003, waits_s=0.001)
    finding = _complete(gain_s=0.004, simulated_s=0.001, touched=touched)
    assert finding.gains == (GainRange(unit="s", low=0.0, high=pytest.approx(0.006), basis="simulated"),)
    assert finding.confidence == "simulated"
    assert finding.verify == "verify rank 0"
    assert finding.undo == ""


def test_a_sum_is_a_bound_on_one_side() -> None:
    assert _complete(gain_s=0.004).gains == (GainRange(unit="s", low=0.0, high=0.004, basis="bound"),)
    lost = _complete(gain_s=0.004, gain_bound=AT_LEAST)
    assert lost.gains == (GainRange(unit="s", low=0.004, high=None, basis="bound"),)
    assert lost.confidence == "bound"


def test_time_comes_before_memory() -> None:
    both = _complete(gain_s=0.004, gain_bytes=1024)
    assert [(gain.unit, gain.high) for gain in both.gains] == [("s", 0.004), ("bytes", 1024)]


def test_measured_ranges_stay_and_what_has_no_gain_is_measured() -> None:
    measured = (GainRange(unit="s", low=0.001, high=0.002, basis="measured"),)
    assert _complete(gain_s=0.0015, gains=measured).gains == measured
    assert (_complete().gains, _complete().confidence) == ((), "measured")
