"""A bench as a job of a real Slurm with two nodes, each of which has a rank."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from perfkit.core.record.rank_record import RunStatus
from perfkit.store.suite_reader import read_suite
from tests.fixtures.slurm import Slurm, two_nodes

# Rank 1 is killed where its parameters are sharded: the baseline goes well.
WORKLOAD = """
import os, signal, sys
import torch
from torch import nn
from torch.distributed.tensor import DTensor
from perfkit import Workload

def build():
    print("on", os.environ["SLURMD_NODENAME"], "rank", os.environ.get("RANK"), file=sys.stderr)

    def loss(model, batch):
        if os.environ["RANK"] == "1" and any(isinstance(each, DTensor) for each in model.parameters()):
            os.kill(os.getpid(), signal.SIGKILL)
        return model(batch["x"]).square().mean()

    return Workload(
        name="mine",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.randn(4, 8, generator=generator)},
        loss=loss,
    )
"""
BENCH = ("perfkit", "bench", "--launcher", "slurm", "--nnodes", "2", "--world-size", "2", "--no-calibrate")
SHORT = ("--workload", "mine.py:build", "--rounds", "0", "--steps", "1", "--warmup", "1")


pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    with two_nodes(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(WORKLOAD)
    return tmp_path


def nothing_is_left(slurm: Slurm, folder: Path) -> bool:
    running = [each.info["cmdline"] or () for each in psutil.process_iter(["cmdline"])]
    ours = [command for command in running if any(str(folder) in part for part in command)]
    return not ours and slurm.finished("squeue", "--noheader", cwd=folder)[:2] == (0, "")


def test_each_run_is_a_step_on_both_nodes_and_a_rank_that_is_killed_is_named(slurm: Slurm, folder: Path) -> None:
    code, out, err = slurm.finished(*BENCH, *SHORT, "--technique", "zero3", "--out", "suite", cwd=folder)
    assert code == 1, err
    assert "n[1-2]" in err
    assert "report: suite/report.html" in out, err
    baseline, sharded = read_suite(folder / "suite").runs
    assert baseline.run.status == RunStatus.OK
    assert [rank.record.samples.wall_s != () for rank in baseline.ranks] == [True, True]
    for rank in (0, 1):
        said = (folder / "suite" / baseline.path / f"rank{rank}" / "output.log").read_text()
        assert f"on n{rank + 1} rank {rank}" in said
    assert sharded.run.status == RunStatus.CRASHED
    assert re.match(r"rank 1 .*SIGKILL", sharded.run.reason)
    assert [wait.rank for wait in sharded.run.rank_waits] == [0]
    assert nothing_is_left(slurm, folder)


def test_a_job_that_waits_says_for_what_and_is_cancelled(slurm: Slurm, folder: Path) -> None:
    bench = slurm.start(*BENCH, *SHORT, "--slurm", "begin=now+1hour", "--out", "suite", cwd=folder)
    assert bench.stderr is not None
    for line in bench.stderr:
        if re.search("debug.*BeginTime", line):
            break
    os.kill(bench.pid, signal.SIGINT)
    _, err = bench.communicate(timeout=60)
    assert bench.returncode == 130
    assert re.search(r"job \d+ canceled", err)
    assert nothing_is_left(slurm, folder)
