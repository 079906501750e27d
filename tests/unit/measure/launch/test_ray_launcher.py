"""What the launcher makes of what nodes of a Ray cluster say; a real cluster is started in tests/clusters."""

import errno
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch.distributed as dist

from perfkit.core.errors import PerfkitError, TerminatedError, UsageError, raise_terminated
from perfkit.core.ray_cluster import keep_signal_errors
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.measure.launch.rank_processes import HERE
from perfkit.measure.launch.ray_launcher import RAY, _compute_needs, _RayNodes, _RayRanks
from perfkit.measure.launch.ray_node import FilePart, RankEnded, RayNode, _read_file_parts


class GoneError(Exception):
    """A RayError."""


class Stream:
    """What a node says, one by one; an exception is the end of the node, None that it says no more for now."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said

    def __next__(self) -> Any:
        if not self.said:
            raise StopIteration
        return self.said.pop(0)


class Places:
    """Nodes that say what they are told to."""

    def __init__(self, *said: list[Any]) -> None:
        self.lost = False
        self.ended: list[int] = []
        self.nodes = [self._node(each) for each in said]
        self.ray = SimpleNamespace(wait=self._wait, get=self._get, exceptions=SimpleNamespace(RayError=GoneError))

    def meeting(self) -> dict[str, str]:
        return {}

    def _node(self, said: list[Any]) -> Any:
        run = SimpleNamespace(options=lambda num_returns: SimpleNamespace(remote=lambda share: Stream(said)))
        return SimpleNamespace(run=run, end=SimpleNamespace(remote=lambda number: self._end(said)))

    def _end(self, said: list[Any]) -> None:
        self.ended.append(len(self.ended))
        said[:] = [each for each in said if each is not None]

    @staticmethod
    def _wait(streams: list[Stream], num_returns: int, timeout: float) -> tuple[list[Stream], list[Stream]]:
        ready = [stream for stream in streams if not stream.said or stream.said[0] is not None]
        return ready[:1], streams

    @staticmethod
    def _get(said: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said


def started(folder: Path, *said: list[Any]) -> tuple[_RayRanks, Places, list[str]]:
    launch = LaunchSpec(world_size=len(said), launcher="ray", nodes=len(said))
    places = Places(*said)
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch)
    return _RayRanks(places, spec, folder, HERE), places, []  # type: ignore[arg-type]


def test_what_ranks_wrote_is_put_together_in_the_runs_folder(tmp_path: Path) -> None:
    first = ["timed steps", RankEnded(0, 0), FilePart("rank0/a", b"1"), FilePart("rank0/a", b"2")]
    ranks, _, told = started(tmp_path, first, [RankEnded(1, 0), FilePart("rank1/b", b"")])
    assert ranks.wait(1.0, told.append)
    ranks.end()
    assert told == ["timed steps"]
    assert sorted(ranks.exits().order) == [0, 1]
    assert ranks.exits()._replace(order=()) == ExitCodes((0, 0))
    assert (tmp_path / "rank0" / "a").read_bytes() == b"12"
    assert (tmp_path / "rank1" / "b").read_bytes() == b""


def test_a_rank_that_fails_shortens_the_wait_for_the_others(tmp_path: Path) -> None:
    ranks, places, told = started(tmp_path, [None, RankEnded(0, -signal.SIGTERM)], [RankEnded(1, 1)])
    assert ranks.wait(1000.0, told.append)
    assert not places.ended
    ranks.end()
    assert ranks.exits() == ExitCodes((-signal.SIGTERM, 1), (1,))
    assert places.ended == [0]  # the other has said all


def test_ranks_that_do_not_end_in_time_are_told_to(tmp_path: Path) -> None:
    ranks, places, told = started(tmp_path, [None, RankEnded(0, -15)], [None, RankEnded(1, -9)])
    assert not ranks.wait(0.0, told.append)
    ranks.end()
    assert ranks.exits() == ExitCodes((-15, -9))
    assert not places.lost


def test_a_node_that_is_lost_is_told_with_why(tmp_path: Path) -> None:
    ranks, places, told = started(tmp_path, [RankEnded(0, 1)], [GoneError("a traceback\nNodeDied")])
    assert ranks.wait(1000.0, told.append)
    ranks.end()
    assert places.lost
    assert ranks.exits().codes == (1, None)
    assert re.fullmatch(r".*\brank 1\b.*: NodeDied", ranks.exits().untold)


def test_a_place_has_the_cpus_and_gpus_of_its_ranks() -> None:
    launch = LaunchSpec(world_size=8, nodes=2, threads=3, launcher="ray")
    assert _compute_needs(launch) == (2, {"CPU": 12.0})
    assert _compute_needs(LaunchSpec(world_size=8, nodes=2, device="cuda", launcher="ray")) == (
        2,
        {"CPU": 4.0, "GPU": 4.0},
    )


def test_a_cluster_that_is_connected_to_from_outside_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(UsageError, match="RAY_ADDRESS"):
        RAY.check(LaunchSpec(launcher="ray"))


def test_the_port_at_which_ranks_meet_is_held_until_they_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    monkeypatch.setitem(sys.modules, "ray.util", SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1"))
    node = RayNode()
    for name, value in node.meeting().items():
        monkeypatch.setenv(name, value)
    with socket.socket() as other, pytest.raises(OSError, match=re.escape(os.strerror(errno.EADDRINUSE))):
        other.bind(("127.0.0.1", int(os.environ["MASTER_PORT"])))
    stores = [next(dist.rendezvous("env://", rank, 2))[0] for rank in (1, 0)]  # none waits for the first
    stores[0].set("key", "value")
    assert stores[1].get("key") == b"value"
    first = os.environ["MASTER_PORT"]
    assert node.meeting()["MASTER_PORT"] != first  # the next run's keys are none of this one's


def test_files_come_in_parts_but_for_those_that_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.measure.launch.ray_node._PART_BYTES", 2)
    (tmp_path / "rank0").mkdir()
    (tmp_path / "rank0" / "a").write_bytes(b"12345")
    (tmp_path / "rank0" / "empty").touch()
    (tmp_path / "spec.json").touch()
    parts = list(_read_file_parts(tmp_path))
    assert b"".join(part.data for part in parts if part.path == "rank0/a") == b"12345"
    assert len(parts) == 4
    assert {part.path for part in parts} == {"rank0/a", "rank0/empty"}


def test_a_node_that_is_lost_between_runs_ends_the_bench_with_a_word() -> None:
    gone = SimpleNamespace(meeting=SimpleNamespace(remote=lambda: GoneError("a traceback\nNodeDied")))
    places = _RayNodes.__new__(_RayNodes)  # its nodes are those of a cluster
    places.nodes, places.lost = [gone, gone], False
    places.ray = SimpleNamespace(
        get=Places._get, is_initialized=lambda: True, exceptions=SimpleNamespace(RayError=GoneError)
    )
    with pytest.raises(PerfkitError, match=r"\brank 0\b.*: NodeDied; .*--resume"):
        places.meeting()
    assert not places.usable


def test_sigterm_is_told_from_ctrl_c_though_ray_raises_the_same_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGTERM, raise_terminated)
    try:
        with pytest.raises(TerminatedError), keep_signal_errors():
            _interrupted_as_ray_does(lambda: signal.raise_signal(signal.SIGTERM))
        with pytest.raises(KeyboardInterrupt) as plain, keep_signal_errors():
            _interrupted_as_ray_does(lambda: signal.raise_signal(signal.SIGINT))
        assert type(plain.value) is KeyboardInterrupt
        assert signal.getsignal(signal.SIGTERM) is raise_terminated
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupted_as_ray_does(interrupt: Callable[[], None]) -> None:
    try:
        interrupt()
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None
