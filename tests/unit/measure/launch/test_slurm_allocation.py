from pathlib import Path

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import LaunchSpec
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit.measure.launch.slurm_allocation import SlurmAllocation, find_other_node, is_in_slurm_job, read_allocation

JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURMD_NODENAME": "n1"}


def enter(monkeypatch: pytest.MonkeyPatch, cpus: str, **variables: str) -> None:
    for name, value in {**JOB, "SLURM_JOB_CPUS_PER_NODE": cpus, **variables}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(("told", "least"), [("72", 72), ("72(x3)", 72), ("72(x2),36", 36), ("8,16(x2)", 8)])
def test_the_node_with_fewest_cpus_counts(monkeypatch: pytest.MonkeyPatch, told: str, least: int) -> None:
    enter(monkeypatch, told)
    assert read_allocation() == SlurmAllocation("7", 3, least)


def test_elsewhere_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in JOB:
        monkeypatch.delenv(name, raising=False)
    slurm = LAUNCHERS.load("slurm")
    with pytest.raises(UsageError, match=r"--launcher.*`perfkit bench --launcher slurm`"):
        slurm.check(LaunchSpec())
    assert not is_in_slurm_job()
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "8(x2)")
    monkeypatch.setenv("SLURM_JOB_ID", "7")  # as in salloc's shell, on the machine that it was typed on
    with pytest.raises(UsageError, match="put `srun --overlap --nodes=1 --ntasks=1 --cpus-per-task=8`"):
        slurm.check(LaunchSpec())
    assert is_in_slurm_job()  # another one would wait for what this one holds


def test_a_job_with_too_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, "1(x3)")
    with pytest.raises(UsageError, match="--nnodes 4: the Slurm job 7 has 3"):
        LAUNCHERS.load("slurm").check(LaunchSpec(world_size=4, nodes=4))


def test_another_node_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(monkeypatch, "1(x3)", SLURM_STEP_NUM_NODES="3", SLURM_STEP_NODELIST="n[1-3]")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_other_node() == ""  # there is no scontrol
    (tmp_path / "scontrol").write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-3]" ] && printf "n1\\nn2\\nn3\\n"\n')
    (tmp_path / "scontrol").chmod(0o755)
    assert find_other_node() == "n2"
    monkeypatch.setenv("SLURMD_NODENAME", "n3")
    assert find_other_node() == "n1"
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "1")
    assert find_other_node() == ""


@pytest.mark.parametrize("launcher", ["process", "slurm", "ray"])
def test_an_endpoint_is_torchruns(monkeypatch: pytest.MonkeyPatch, launcher: str) -> None:
    enter(monkeypatch, "1(x3)")
    with pytest.raises(UsageError, match=f"--rdzv-endpoint .* with {launcher}"):
        LAUNCHERS.load(launcher).check(LaunchSpec(launcher=launcher, endpoint="host1:29500"))


def test_a_process_of_a_job_takes_the_cores_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_ON_NODE", "1")
    assert count_available_cores() == 1
