"""What a rank started is ended with it, in whatever session it is."""

import subprocess
import time
from pathlib import Path

import psutil
import pytest

from perfkit.measure.launch.ranks import RankProcess, end_ranks, rank_variables
from perfkit.spec import LaunchSpec

# A rank that ends at once (or not), and leaves a sleeper in a session of its own.
_LEAVES = "setsid sleep 300 & echo $!; {then}"


@pytest.mark.parametrize("then", ["exit 0", "sleep 300"])
def test_a_child_in_its_own_session_ends_with_the_rank(tmp_path: Path, then: str) -> None:
    rank = RankProcess(["sh", "-c", _LEAVES.format(then=then)], env={"PATH": "/usr/bin:/bin"}, stdout=subprocess.PIPE)
    assert rank.stdout is not None
    rank.stdout.readline()
    end = time.monotonic() + 10
    while not (sleepers := _asleep(rank.mark)) and time.monotonic() < end:
        time.sleep(0.01)
    if then == "exit 0":
        rank.wait()
    assert sleepers
    end_ranks([rank])
    psutil.wait_procs(sleepers, timeout=10)
    assert not [sleeper for sleeper in sleepers if sleeper.is_running() and sleeper.status() != psutil.STATUS_ZOMBIE]


def test_what_other_ranks_started_goes_on(tmp_path: Path) -> None:
    ranks = [RankProcess(["sleep", "300"], env={"PATH": "/usr/bin:/bin"}) for _ in range(2)]
    end_ranks(ranks[:1])
    assert ranks[1].poll() is None
    end_ranks(ranks[1:])
    assert ranks[1].returncode is not None


def _asleep(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if "sleep" in process.cmdline() and process.environ().get("PERFKIT_RANK_MARK") == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_under_a_limit_of_addresses_tensors_are_mapped_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """glibc's heaps keep the holes between what was freed; what is mapped apart goes back at once."""
    name = "MALLOC_MMAP_THRESHOLD_"
    monkeypatch.delenv(name, raising=False)
    assert name not in rank_variables(LaunchSpec(), 0)
    assert rank_variables(LaunchSpec(memory_limit_bytes=2**31), 0)[name] == "131072"
    monkeypatch.setenv(name, "65536")
    assert name not in rank_variables(LaunchSpec(memory_limit_bytes=2**31), 0)  # the user's own is inherited


def test_the_numbers_of_a_rank_on_several_machines() -> None:
    variables = rank_variables(LaunchSpec(world_size=6, nodes=2), 4)
    numbers = {name: variables[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    assert list(numbers.values()) == ["4", "6", "1", "3"]
