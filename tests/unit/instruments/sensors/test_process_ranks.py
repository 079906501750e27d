"""A launcher's ranks are found by their environment, with what each started."""

from typing import Any

import psutil
import pytest

from perfkit.core.errors import PerfkitError
from perfkit.instruments.sensors import process_ranks
from perfkit.instruments.sensors.process_ranks import (
    add_descendants,
    find_ranks,
    find_spawned_ranks,
    list_rank_processes,
)
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
from perfkit.store.stacks import SampledThread


class Process:
    """A process with a parent; `rank` None for none, and an error for one that may not be read."""

    def __init__(self, pid: int, parent: int, rank: str | psutil.Error | None = None) -> None:
        self.pid, self.parent, self.rank = pid, parent, rank

    def ppid(self) -> int:
        return self.parent

    def environ(self) -> dict[str, str]:
        if isinstance(self.rank, psutil.Error):
            raise self.rank
        return {} if self.rank is None else {"RANK": self.rank}


def find(launcher: Process, *children: Process) -> tuple[dict[int, int], list[int]]:
    known: list[Any] = list(children)
    root: Any = launcher
    ranks = find_ranks(root, known)
    return ranks, [process.pid for process in list_rank_processes(ranks, known)]


def test_ranks_are_the_outermost_processes_with_a_number() -> None:
    ranks, workers = find(
        Process(10, 1),
        Process(11, 10),  # a shell between
        Process(12, 11, "5"),
        Process(13, 10, "4"),
        Process(14, 12, "5"),  # a loader's worker
        Process(15, 14, "5"),
        Process(16, 10, psutil.AccessDenied(16)),
        Process(17, 10, "many"),
    )
    assert ranks == {12: 5, 13: 4, 14: 5, 15: 5}
    assert workers == [12, 13]


def test_a_rank_and_a_program_without_ranks_launch_none() -> None:
    assert find(Process(20, 1, "3"), Process(21, 20, "3")) == ({}, [])
    assert find(Process(30, 1), Process(31, 30)) == ({}, [])


CALL = "_wrap (/v/lib/python3.12/site-packages/torch/multiprocessing/spawn.py:88)"
# The program, three ranks, what one of them forked, a process that began later, and a loader's worker.
SPAWNED = f"""\
process 60:"a";thread (60): MainThread;join (/v/site-packages/torch/multiprocessing/spawn.py:160) 9
process 60:"a";process 63:"b";thread (63): MainThread;{CALL};train (/home/me/a.py:4) 9
process 60:"a";process 62:"b";thread (62): MainThread;{CALL};train (/home/me/a.py:4) 7
process 60:"a";process 62:"b";thread (70): pin;loop (/home/me/a.py:9) 7
process 60:"a";process 65:"b";thread (65): MainThread;{CALL};train (/home/me/a.py:5) 7
process 60:"a";process 63:"b";process 64:"b";thread (64): MainThread;{CALL};train (/home/me/a.py:4);f (a.py:1) 9
process 60:"a";process 66:"b";thread (66): MainThread;{CALL};train (/home/me/a.py:5) 7
process 60:"a";process 61:"b";thread (61): MainThread;_wrap (/home/me/spawn.py:5) 7
"""
PARENTS = {61: 60, 62: 60, 63: 60, 64: 63, 65: 60, 67: 62}


def read(text: str = SPAWNED) -> tuple[SampledThread, ...]:
    return read_collapsed(text, pid=60, hz=10.0, seconds=1.0, directory="/home/me")


def make_stack(index: str | None) -> list[dict[str, Any]]:
    values = [{"name": "fn", "repr": "<function>"}, {"name": "i", "repr": index}]
    inner = {"name": "train", "filename": "/home/me/a.py", "locals": [{"name": "i", "repr": "9"}]}
    file = "/v/lib/python3.12/site-packages/torch/multiprocessing/spawn.py"
    return [{"frames": [inner]}, {"frames": [inner, {"name": "_wrap", "filename": file, "locals": values}]}]


def test_spawned_ranks_are_numbered_by_the_index_that_their_function_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    def dump(pid: int) -> list[dict[str, Any]]:
        if pid == 65:
            raise PerfkitError("it has ended")
        return make_stack({62: "12", 63: "3"}[pid])

    monkeypatch.setattr(process_ranks, "dump_stacks", dump)
    ranks = find_spawned_ranks(read(), PARENTS)
    assert list(ranks.items()) == [(63, 3), (62, 12), (65, None)]
    assert add_descendants(ranks, PARENTS) == {63: 3, 62: 12, 65: None, 64: 3, 67: 12}


@pytest.mark.parametrize("index", [None, "<int at 0x7f>"])
def test_an_index_that_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch, index: str | None) -> None:
    monkeypatch.setattr(process_ranks, "dump_stacks", lambda _: make_stack(index))
    assert find_spawned_ranks(read(), {62: 60}) == {62: None}


def test_a_rank_that_was_spawned_itself_launches_none() -> None:
    forked = SPAWNED.replace("join (/v/site-packages/torch/multiprocessing/spawn.py:160)", CALL)
    assert find_spawned_ranks(read(forked), PARENTS) == {}
