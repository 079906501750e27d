"""The stacks of a loop and of its loaders' workers, in a run's folder."""

import json
import time
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import worker

from perfkit.attach.loader_workers import LoaderWorkers
from perfkit.attach.phases import PhaseMarks
from perfkit.attach.stacks import LoopStacks
from perfkit.files import read_json
from perfkit.store.stacks import COLLAPSED_FILE, LOOP, SPEEDSCOPE_FILE, STACKS_FILE, WORKER, Stacks


def spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


class Spinning(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        spin(0.1)
        return torch.zeros(1)


@pytest.mark.slow
def test_the_loop_and_its_workers(tmp_path: Path) -> None:
    warnings: list[str] = []
    phases = PhaseMarks()
    original = worker._worker_loop
    stacks = LoopStacks(200.0)
    stacks.begin()
    with stacks.sampled(tmp_path, phases, warnings.append):
        phases.enter("forward")
        list(DataLoader(Spinning(), batch_size=1, num_workers=1))  # a process that is forked
        spin(0.1)
    assert [thread.thread for thread in read_json(tmp_path / STACKS_FILE, Stacks).threads] == [LOOP]
    stacks.end()
    stacks.end()
    found = {thread.thread: thread for thread in read_json(tmp_path / STACKS_FILE, Stacks).threads}
    assert set(found) == {LOOP, WORKER}
    for thread in found.values():
        assert "spin" in {function.name for function in thread.functions}
    assert {taken.phase for taken in found[LOOP].taken} == {"forward"}
    assert worker._worker_loop is original
    assert not warnings
    assert any("Spinning.__getitem__" in line for line in (tmp_path / COLLAPSED_FILE).read_text().splitlines())
    drawn = json.loads((tmp_path / SPEEDSCOPE_FILE).read_bytes())
    assert [len(profile["samples"]) == len(profile["weights"]) for profile in drawn["profiles"]] == [True, True]


def test_nothing_is_done_when_switched_off(tmp_path: Path) -> None:
    original = worker._worker_loop
    stacks = LoopStacks(0.0)
    stacks.begin()
    with stacks.sampled(tmp_path, PhaseMarks(), lambda _: None):
        assert worker._worker_loop is original
    stacks.end()
    assert not list(tmp_path.iterdir())


def test_what_somebody_else_put_in_place_stays() -> None:
    original = worker._worker_loop
    workers = LoaderWorkers(100.0)
    try:
        worker._worker_loop = other = lambda *_: None
        assert workers.end() == ()
        assert worker._worker_loop is other
    finally:
        worker._worker_loop = original
