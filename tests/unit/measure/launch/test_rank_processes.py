"""What a rank started is ended with it, in whatever session it is."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from perfkit.core.spec import LaunchSpec
from perfkit.measure.launch.dump_mark import MARK_FILE
from perfkit.measure.launch.rank_processes import RankProcess, await_ends, build_rank_variables, end_ranks

# A rank that ends at once (or not), and leaves a sleeper in a session of its own.
_LEAVES = "setsid sleep 300 & echo $!; {then}"


@pytest.mark.slow
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


class Ending(RankProcess):
    """A rank that was told to end: it writes its flight record until `written_s`, and ends at `ends_s`."""

    def __init__(self, folder: Path, now: Callable[[], float], *, written_s: float, ends_s: float) -> None:
        folder.mkdir()
        self.folder, self.now, self.written_s, self.ends_s = folder, now, written_s, ends_s

    def poll(self) -> int | None:
        assert self.folder is not None
        mark = self.folder / MARK_FILE
        if self.now() < self.written_s:
            mark.touch()
        else:
            mark.unlink(missing_ok=True)
        return None if self.now() < self.ends_s else -15

    def __del__(self) -> None:
        """There is no process."""


@pytest.mark.parametrize(
    ("written_s", "ends_s", "waited_s"),
    [
        (0.0, 1.0, 1.0),
        (0.0, 1e9, 5.0),  # it hangs, and writes nothing
        (17.0, 17.5, 17.0),  # written, and given up: it has had its time
        (17.0, 16.0, 16.0),
        (1e9, 1e9, 30.0),
    ],
)
def test_a_rank_that_writes_its_flight_record_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written_s: float, ends_s: float, waited_s: float
) -> None:
    monkeypatch.delenv("PERFKIT_DUMP_LIMIT_S", raising=False)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    quick = [Ending(tmp_path / f"rank{rank}", lambda: now[0], written_s=0.0, ends_s=1.0) for rank in range(7)]
    last = Ending(tmp_path / "rank7", lambda: now[0], written_s=written_s, ends_s=ends_s)
    await_ends([*quick, last], clock=lambda: now[0], sleep=sleep)
    assert now[0] == pytest.approx(waited_s, abs=0.05)


def test_the_limit_of_dumps_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setenv("PERFKIT_DUMP_LIMIT_S", "60")
    for_ever = Ending(tmp_path / "rank0", lambda: now[0], written_s=1e9, ends_s=1e9)
    agent = Ending(tmp_path / "agent", lambda: now[0], written_s=0.0, ends_s=1e9)
    agent.folder = tmp_path  # of the run, whose ranks the agent started
    for_ever.poll()
    await_ends([agent], clock=lambda: now[0], sleep=sleep)
    assert now[0] == pytest.approx(60.0, abs=0.05)


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
    assert name not in build_rank_variables(LaunchSpec(), 0)
    assert build_rank_variables(LaunchSpec(memory_limit_bytes=2**31), 0)[name] == "131072"
    monkeypatch.setenv(name, "65536")
    assert name not in build_rank_variables(LaunchSpec(memory_limit_bytes=2**31), 0)  # the user's own is inherited


def test_the_numbers_of_a_rank_on_several_machines() -> None:
    variables = build_rank_variables(LaunchSpec(world_size=6, nodes=2), 4)
    numbers = {name: variables[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")}
    assert list(numbers.values()) == ["4", "6", "1", "3"]
