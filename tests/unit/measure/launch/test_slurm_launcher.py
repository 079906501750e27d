"""The launcher within a job, with commands that stand in for Slurm's."""

import os
import re
import signal
from pathlib import Path

import pytest

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.launch.launcher import ExitCodes, StartedRanks
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit.measure.launch.rank_processes import HERE
from perfkit.measure.launch.run_outcome import determine_outcome
from tests.fixtures.figures import list_rank_and_signal

KILL = -signal.SIGKILL
SOURCES = re.compile(r"srun|rank \d+|agent\d+\.log")  # what a reason names
SPEC = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(launcher="slurm", world_size=4, nodes=2))


@pytest.fixture
def step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Start a step in which srun does what a shell script says; what Slurm is told is in `commands`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name, value in (
        ("JOB_ID", "7"),
        ("JOB_NUM_NODES", "2"),
        ("JOB_CPUS_PER_NODE", "9(x2)"),
        ("NTASKS", "1"),
        ("GPUS_PER_TASK", "1"),
    ):
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")

    def start(srun: str) -> StartedRanks:
        scripts = {
            "srun": f'echo "srun $SLURM_NTASKS$SLURM_GPUS_PER_TASK $*" >>{tmp_path}/commands; {srun}',
            # Which ends the step: srun ends once its tasks have.
            "scancel": f'echo "scancel $*" >>{tmp_path}/commands; touch {tmp_path}/cancelled',
            "squeue": ":",
        }
        for name, script in scripts.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        return LAUNCHERS.load("slurm").start(SPEC, tmp_path / "run", HERE, (), lambda _: None)

    return start


def commands(folder: Path) -> list[str]:
    return (folder / "commands").read_text().splitlines()


def test_each_rank_has_its_share_of_the_nodes(tmp_path: Path, step) -> None:
    ranks = step("echo perfkit-step 3; for rank in 2 0 1 3; do echo perfkit-exit $rank 0; done")
    assert ranks.wait(60.0, lambda _: None)
    ranks.end()
    assert ranks.exits() == ExitCodes((0, 0, 0, 0), (2, 0, 1, 3))
    [srun] = commands(tmp_path)
    assert srun.startswith("srun  ")  # without the variables of the job's own script
    wanted = {"--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=4", "--distribution=block"}
    assert wanted <= set(srun.split())
    assert srun.endswith(f"perfkit.measure.launch.slurm_task {tmp_path / 'run'}")


def test_what_a_site_prints_is_passed_over(tmp_path: Path, step) -> None:
    told: list[str] = []
    ranks = step("echo Welcome; echo perfkit-step 3; echo perfkit-pass timed steps; echo; echo perfkit-exit 1 1")
    assert ranks.wait(60.0, told.append)
    ranks.end()
    assert told == ["timed steps"]
    exits = ranks.exits()
    assert exits == ExitCodes((None, 1, None, None), (1,), exits.untold)
    assert SOURCES.findall(exits.untold) == ["srun", "rank 0", "agent0.log"]


def test_ranks_that_hang_are_told_to_end_by_slurm(tmp_path: Path, step) -> None:
    ending = "for rank in 0 1 2 3; do echo perfkit-exit $rank -15; done"
    ranks = step(f"echo perfkit-step 3; while [ ! -e {tmp_path}/cancelled ]; do sleep 0.05; done; {ending}")
    assert not ranks.wait(0.5, lambda _: None)
    ranks.end()
    assert ranks.exits() == ExitCodes((-15,) * 4, ())  # by themselves none has
    assert commands(tmp_path)[1:] == ["scancel --signal=TERM 7.3"]


def test_once_a_rank_has_failed_the_others_have_seconds(tmp_path: Path, step, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.measure.launch.slurm_launcher.GRACE_S", 0.2)
    waiting = f"while [ ! -e {tmp_path}/cancelled ]; do sleep 0.05; done; echo perfkit-exit 0 -15"
    ranks = step(f"echo perfkit-step 3; echo perfkit-exit 1 {KILL}; {waiting}")
    assert ranks.wait(60.0, lambda _: None)
    ranks.end()
    assert ranks.exits().codes == (-15, KILL, None, None)
    run = determine_outcome(SPEC, tmp_path / "run", None, ranks.exits())
    assert run.status == RunStatus.CRASHED
    assert list_rank_and_signal(run.reason) == ["rank 1", "SIGKILL"]


def test_what_srun_itself_says_is_told_where_no_rank_has_begun(tmp_path: Path, step) -> None:
    ranks = step("echo 'srun: error: Unable to create step: More processors requested than permitted' >&2; exit 1")
    assert ranks.wait(60.0, lambda _: None)
    ranks.end()
    run = determine_outcome(SPEC, tmp_path / "run", None, ranks.exits())
    assert SOURCES.findall(run.reason) == ["srun", "rank 0", "agent0.log"]
    assert run.output_tail.startswith("slurm:\nsrun: error: ")
