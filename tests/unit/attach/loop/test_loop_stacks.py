"""The stacks of a loop and of its loaders' workers, in a run's folder."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from perfkit.attach.loop import loop_stacks as of_a_loop
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.loop_stacks import sample_loop_stacks
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.core.files import read_json
from perfkit.store.stacks import (
    COLLAPSED_FILE,
    LOOP,
    SPEEDSCOPE_FILE,
    STACKS_FILE,
    WORKER,
    SampledStacks,
    SampledThread,
)
from tests.fixtures.py_spy import py_spy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stacks are sampled on Linux")


def test_a_loop_that_ends_where_nothing_can_be_sampled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    steps = sample_loop_stacks(tmp_path, 100, a_loop(), 60.0, evaluates=False)
    next(steps)
    steps.close()
    assert "on Linux only" in read_json(tmp_path / STACKS_FILE, SampledStacks).reason


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


class Spinning(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        spin(0.1)
        return torch.zeros(1)


@pytest.mark.slow
def test_the_loop_and_its_workers(tmp_path: Path) -> None:
    """py-spy itself looks at this process; where it may not, the folder says so."""
    steps = sample_loop_stacks(tmp_path, 100, a_loop(), 60.0, evaluates=False)
    next(steps)
    list(DataLoader(Spinning(), batch_size=1, num_workers=1))  # a process that is forked
    spin(1.0)
    steps.close()  # the loop ends
    seen = read_json(tmp_path / STACKS_FILE, SampledStacks)
    if "cannot be inspected" in seen.reason:
        pytest.skip(seen.reason)
    found = {thread.thread: thread for thread in seen.threads}
    assert set(found) == {LOOP, WORKER}
    for thread in found.values():
        assert "spin" in {function.name for function in thread.functions}
    assert {taken.phase for taken in found[LOOP].stack_samples} == {"data", ""}
    assert found[LOOP].lock_samples
    assert 0 < seen.cost_s < seen.seconds
    assert any("Spinning.__getitem__" in line for line in (tmp_path / COLLAPSED_FILE).read_text().splitlines())
    drawn = json.loads((tmp_path / SPEEDSCOPE_FILE).read_bytes())
    assert [len(profile["samples"]) == len(profile["weights"]) for profile in drawn["profiles"]] == [True, True]


SEEN = SampledStacks(seconds=1.0, threads=(SampledThread(thread=LOOP, pid=1, directory="", hz=100.0, seconds=1.0),))


def a_loop() -> LoopFollower:
    return LoopFollower(StepFinder(None), lambda: None)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The looks that were begun, each of which sees something."""
    begun: list[Path] = []

    @contextmanager
    def seen(folder: Path, _hz: int, found: Callable[[SampledStacks], None]) -> Iterator[None]:
        begun.append(folder)
        try:
            yield
        finally:
            found(SEEN)

    monkeypatch.setattr(of_a_loop, "sample_own_stacks", seen)
    return begun


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def written(folder: Path) -> SampledStacks:
    return read_json(folder / STACKS_FILE, SampledStacks)


def test_a_look_of_usual_steps_lasts_for_seconds_and_for_a_whole_step(looks: list[Path], tmp_path: Path) -> None:
    for step_s, most in ((1.0, 3), (10.0, 1)):
        clock = Clock()
        steps = 0
        for _ in sample_loop_stacks(tmp_path, 100, a_loop(), step_s, evaluates=False, clock=clock):
            clock.now += step_s
            steps += 1
        assert (steps, written(tmp_path)) == (most, SEEN)
    assert len(looks) == 2


def test_steps_that_compile_or_evaluate_are_not_taken_for_usual_ones(looks: list[Path], tmp_path: Path) -> None:
    clock, loop = Clock(), a_loop()
    for number, _ in enumerate(sample_loop_stacks(tmp_path, 100, loop, 0.1, evaluates=False, clock=clock)):
        clock.now += 62.0 if number == 0 else 0.1
        if 0 < number < 20 or 31 <= number < 41:
            loop.evaluated()
    assert len(looks) == 3
    assert written(tmp_path).threads == SEEN.threads
    assert written(tmp_path).other_steps_share == pytest.approx(1 / 3, abs=0.05)  # it evaluated then, too


def test_nothing_is_kept_of_loops_in_which_no_look_met_usual_steps(looks: list[Path], tmp_path: Path) -> None:
    clock = Clock()
    for _ in sample_loop_stacks(tmp_path, 100, a_loop(), 0.1, evaluates=False, clock=clock):
        clock.now += 4.0
    assert len(looks) == 5
    assert "timed steps" in written(tmp_path).reason
    ended = sample_loop_stacks(tmp_path, 100, a_loop(), 0.1, evaluates=False, clock=clock)  # by a step that lasts
    next(ended)
    clock.now += 4.0
    ended.close()
    assert "loop ended" in written(tmp_path).reason


def test_a_loop_that_ends_meanwhile_has_what_was_seen(looks: list[Path], tmp_path: Path) -> None:
    clock = Clock()
    steps = sample_loop_stacks(tmp_path, 100, a_loop(), 0.1, evaluates=False, clock=clock)
    next(steps)
    clock.now += 0.2
    steps.close()
    assert written(tmp_path) == SEEN


def test_what_forbids_it_is_written_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(of_a_loop, "SAMPLED_S", 0.0)
    py_spy(monkeypatch, tmp_path, fails="Error: Operation not permitted")
    steps = sample_loop_stacks(tmp_path, 100, a_loop(), 0.0, evaluates=False)
    next(steps)
    time.sleep(0.2)
    assert list(steps) == []
    assert "cannot be inspected" in written(tmp_path).reason
    assert not (tmp_path / SPEEDSCOPE_FILE).exists()
