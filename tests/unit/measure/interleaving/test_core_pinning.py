"""Which cores a round keeps to, and that real threads do."""

import subprocess
import sys
from pathlib import Path

import pytest

from perfkit.devices.machine.machine import list_usable_cpus
from perfkit.measure.interleaving.core_pinning import RankCores, bind_to_cores, choose_round_cores


def own(*arguments) -> list[list[int]]:
    return [sorted(cores.own) for cores in choose_round_cores(*arguments, node_of=lambda core: 0)]


def test_rounds_go_round_the_cores() -> None:
    assert [own((0, 1, 2), 1, 1, index) for index in range(4)] == [[[0]], [[1]], [[2]], [[0]]]


def test_every_rank_has_cores_of_its_own() -> None:
    usable = (0, 1, 4, 5, 6)
    assert own(usable, 2, 1, 0) == [[0], [1]]
    assert own(usable, 2, 1, 1) == [[4], [5]]
    assert own(usable, 2, 1, 2) == [[0], [1]]  # the fifth is left over
    assert own(usable, 2, 2, 4) == [[0, 1], [4, 5]]


@pytest.mark.parametrize(("ranks", "threads"), [(1, None), (1, 4), (2, 2), (4, 1)])
def test_without_enough_cores_processes_are_left_alone(ranks: int, threads: int | None) -> None:
    assert choose_round_cores((0, 1, 2), ranks, threads, 0) == ()


def test_memory_is_taken_near_the_cores() -> None:
    """Of two nodes with the even and the odd cores; a rank that spans both may be anywhere."""
    usable = tuple(range(8))

    def parity(core: int) -> int:
        return core % 2

    assert choose_round_cores(usable, 1, 1, 1, parity) == (RankCores(frozenset({1}), frozenset({1, 3, 5, 7})),)
    assert choose_round_cores(usable, 1, 2, 0, parity) == (RankCores(frozenset({0, 1}), frozenset(usable)),)


THREADS = """
import os, threading
def beside():
    ready.release()
    go.acquire()
    os.write(1, f"{sorted(os.sched_getaffinity(0))}\\n".encode())
ready, go = threading.Semaphore(0), threading.Semaphore(0)
before = threading.Thread(target=beside)
before.start()
ready.acquire()
print("ready", flush=True)
input()
after = threading.Thread(target=beside)
after.start()
go.release(2)
before.join()
after.join()
os.write(1, f"{sorted(os.sched_getaffinity(0))}\\n".encode())
"""


@pytest.mark.slow
@pytest.mark.cold  # a fork's number is kept until its parent has heard that it was waited for
@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not bind threads to cores")
def test_all_threads_of_a_process_are_bound_and_those_that_come() -> None:
    core = list_usable_cpus()[-1]
    process = subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    bind_to_cores(process.pid, frozenset({core}))
    said, _ = process.communicate("\n", timeout=60)
    assert said.splitlines() == [f"[{core}]"] * 3
    assert not Path(f"/proc/{process.pid}").exists()
    bind_to_cores(process.pid, frozenset({core}))  # it has ended: nothing to bind
