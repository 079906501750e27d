"""Ranks that a program spawns itself, under `perfkit run`."""

import socket
from pathlib import Path

import pytest

from perfkit.store.suite_reader import read_suite
from tests.fixtures.attached import bare, watched


def free_port() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


@pytest.mark.nightly
def test_spawned_ranks_are_the_ranks_of_one_run_and_compute_the_same(tmp_path: Path) -> None:
    alone = bare("spawned.py", free_port(), cwd=tmp_path)
    with_it = watched("spawned.py", free_port(), cwd=tmp_path)
    assert (alone.returncode, with_it.returncode) == (0, 0), with_it.stderr.decode()
    assert sorted(with_it.stdout.splitlines()) == sorted(alone.stdout.splitlines())
    assert b"no optimizer step" not in with_it.stderr
    assert b"perfkit report run" in with_it.stderr
    [run] = read_suite(tmp_path / "run").runs
    assert [(rank.record.rank, rank.record.world_size, rank.record.status) for rank in run.ranks] == [
        (0, 2, "ok"),
        (1, 2, "ok"),
    ]
