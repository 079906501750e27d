"""A launcher's ranks are found by their environment, with what each started."""

from typing import Any

import psutil

from perfkit.instruments.sensors.process_ranks import find_ranks, list_rank_processes


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
