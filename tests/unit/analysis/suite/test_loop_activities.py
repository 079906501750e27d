"""Gains of what a loop's thread does besides training: the interval of a share of samples."""

import pytest

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.stacks import LoopActivity, LoopStacks, ThreadStacks
from perfkit.analysis.suite.findings.loop_activities import find_loop_activities
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from tests.fixtures import sample_loops
from tests.fixtures.suites import changed

SAMPLES = ThreadStacks(
    processes=1,
    samples=400,
    idle_samples=0,
    seconds=4.0,
    hz=100.0,
    lock_share=0.7,
    perfkit_share=0.0,
    unnamed_share=0.0,
    phases={"": 1.0},
    lines=(),
    libraries=(),
    python_lines=(),
    data_lines=(),
)
WAIT_S = 0.0023


def _find(name: str, *, device: str = "cpu", failed_share: float = 0.0) -> tuple[Finding, float]:
    analysis = sample_loops.alone()
    assert analysis.environment is not None
    first = analysis.variants[0]
    activity = LoopActivity(name=name, samples=80, share=0.2, place="main (train.py:8)")
    stacks = LoopStacks(loop=SAMPLES, failed_share=failed_share, activities=(activity,))
    variant = changed(first, loop=changed(first.loop, stacks=stacks, data_wait_mean_s=WAIT_S))
    step_s = get_step_s(variant)
    assert step_s is not None
    [finding] = find_loop_activities(SuiteView((variant,), changed(analysis.environment, device=device), None))
    return finding, step_s


def _get_shares(name: str, **changes: object) -> tuple[float, float]:
    finding, step_s = _find(name, **changes)  # type: ignore[arg-type]
    [gain] = finding.gains
    assert gain.low is not None
    assert gain.high is not None
    return gain.low / step_s, gain.high / step_s


def test_what_leaves_the_step_saves_at_least_the_lower_end() -> None:
    assert _get_shares("checkpoints") == pytest.approx((0.1638, 0.2419), abs=1e-4)
    assert _get_shares("python")[0] == 0.0  # the same may be computed elsewhere
    assert _get_shares("checkpoints", device="cuda")[0] == 0.0  # a device may work meanwhile


def test_failed_samples_may_have_been_of_it() -> None:
    assert _get_shares("checkpoints", failed_share=0.05)[1] == pytest.approx(0.2845, abs=2e-3)


def test_new_workers_are_awaited() -> None:
    finding, step_s = _find("worker_starts")
    assert finding.gains[0].high == pytest.approx(0.2419 * step_s + WAIT_S, rel=1e-3)
