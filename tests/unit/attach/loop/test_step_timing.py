"""Times of steps between boundaries given by hand."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from perfkit.attach.loop import step_timing
from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop.step_timing import BoundaryStamp, StepSeries, time_loop_steps
from perfkit.core.record.step_samples import StepSamples
from tests.fixtures.two_gpus import two_gpus


class Event:
    """A CUDA event that the device reaches at `at_ms`."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms
        self.waited = 0

    def elapsed_time(self, other: "Event") -> float:
        return other.at_ms - self.at_ms

    def synchronize(self) -> None:
        self.waited += 1


def series(evaluations: Sequence[int], events: Sequence[Any] = ()) -> StepSeries:
    """Step k takes k+1 seconds, and half of that on the CPU."""
    walls = [sum(range(1, step + 1)) for step in range(1 + len(evaluations))]
    events = events or [None] * len(walls)
    stamps = [BoundaryStamp(wall * 10**9, wall * 10**9 // 2, event) for wall, event in zip(walls, events, strict=True)]
    return StepSeries(stamps, [StepCounts(evaluations=each) for each in evaluations])


def test_times_between_boundaries() -> None:
    steps = series([0, 0, 0])
    assert len(steps) == 3
    assert steps.wall_s() == [1, 2, 3]
    assert steps.samples([0, 2]) == StepSamples(wall_s=(1.0, 3.0), cpu_s=(0.5, 1.5))


def test_nothing_yet() -> None:
    steps = StepSeries()
    assert (len(steps), steps.wall_s(), steps.list_training_steps(), steps.evaluates) == (0, [], [], False)
    assert steps.samples([]) == StepSamples()


def test_a_gpus_times_are_read_after_the_last_step() -> None:
    events = [Event(0), Event(10), Event(30), Event(60)]
    steps = series([0, 0, 0], events)
    assert steps.samples([0, 1]).device_s == pytest.approx((0.01, 0.02))
    assert [each.waited for each in events] == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("evaluations", "evaluates", "training"),
    [
        ([0, 0, 0], False, [0, 1, 2]),
        ([0, 3, 0], False, [0, 2]),
        ([1, 1, 0], True, [0, 1, 2]),
        ([1, 0], True, [0, 1]),
        ([1, 0, 0, 1, 0], False, [1, 2, 4]),
    ],
)
def test_steps_with_an_evaluation_are_left_out_unless_most_have_one(
    evaluations: list[int], evaluates: bool, training: list[int]
) -> None:
    steps = series(evaluations)
    assert (steps.evaluates, steps.list_training_steps()) == (evaluates, training)


def test_a_step_in_which_a_graph_was_captured_is_no_training() -> None:
    steps = series([0, 0, 0])
    steps.counts[1].captures = 2
    assert steps.list_training_steps() == [0, 2]


def test_a_series_is_there_also_when_the_loop_ends_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(step_timing, "take_stamp", lambda device: BoundaryStamp(next(now), 0, None))
    loop = LoopFollower(StepFinder(), lambda: None)
    steps = StepSeries()
    loop.counts.backwards = 9  # of what came before
    running = time_loop_steps(loop, torch.device("cpu"), 3, steps)
    next(running)
    assert (len(steps.stamps), len(steps)) == (1, 0)
    loop.counts.backwards = 2
    next(running)
    running.close()
    assert [each.backwards for each in steps.counts] == [2]
    assert steps.wall_s() == [1e-9]


def test_a_series_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(step_timing, "take_stamp", lambda device: BoundaryStamp(next(now), 0, None))
    loop = LoopFollower(StepFinder(), lambda: None)
    steps = StepSeries()
    for _ in range(2):
        for _ in time_loop_steps(loop, torch.device("cpu"), 2, steps):
            pass
    assert (len(steps.stamps), len(steps)) == (5, 4)


def test_a_boundary_on_a_cpu_has_no_event() -> None:
    before, after = (step_timing.take_stamp(torch.device("cpu")) for _ in range(2))
    assert before.event is None
    assert (after.wall_ns >= before.wall_ns, after.cpu_ns >= before.cpu_ns) == (True, True)


@pytest.mark.parametrize("kind", ["cuda", "xpu"])
def test_a_boundary_is_that_of_the_models_gpu_whichever_is_current(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    gpus = two_gpus(monkeypatch, kind)
    model = torch.device(kind, 1)
    steps = StepSeries()
    for _ in time_loop_steps(LoopFollower(StepFinder(), lambda: None), model, 3, steps):
        gpus.launch(1, 50)
    assert steps.samples([1, 2]).device_s == pytest.approx((0.05, 0.05))
    assert (gpus.contexts, gpus.recorded) == ({1}, [1, 1, 1, 1])
