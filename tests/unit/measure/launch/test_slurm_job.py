"""A job from its submission to its end, with commands that stand in for Slurm's, and the test for what runs in it."""

import io
import os
import signal
from pathlib import Path

import cloudpickle
import pytest

from perfkit.core.errors import UsageError
from perfkit.measure.launch import slurm_job
from perfkit.measure.launch.slurm_job import JobEnd, SlurmJob
from perfkit.measure.launch.slurm_queue import QueuedJob


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for name, value in (("_LOOK_S", 0.01), ("_ASK_S", 0.02), ("_RESULT_S", 0.1)):
        monkeypatch.setattr(slurm_job, name, value)

    def start(sbatch: str = "echo Submitted batch job 7", **parameters: str | bool) -> SlurmJob:
        (tmp_path / "queue").write_text("PENDING|Priority|gpu|\n")
        scripts = {
            "sbatch": sbatch,
            "srun": ":",
            "squeue": f"cat {tmp_path}/queue",
            "scontrol": "echo JobState=CANCELLED Reason=None",
            "scancel": f": >{tmp_path}/queue",
        }
        for name, script in scripts.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
        return SlurmJob(["bench"], tmp_path / "job", nodes=2, tasks_per_node=4, parameters=parameters)

    return start


def follow(job: SlurmJob, heard) -> tuple[JobEnd, bytes, bytes]:
    out, err = io.BytesIO(), io.BytesIO()
    ended = job.follow(out, err, heard)
    return ended, out.getvalue(), err.getvalue()


def test_what_is_asked_of_slurm(tmp_path: Path, submit) -> None:
    job = submit(partition="gpu", exclusive=True, **{"cpus-per-task": "8"})
    script = (tmp_path / "job" / "7_submission.sh").read_text().splitlines()
    options = {line.removeprefix("#SBATCH --") for line in script if line.startswith("#SBATCH")}
    assert {"nodes=2", "ntasks-per-node=4", "partition=gpu", "exclusive", "cpus-per-task=8"} <= options
    assert not any(option.startswith(("time", "wckey")) for option in options)  # the partition's own
    assert "signal=B:CONT@1" in options
    assert not any(line.startswith("srun") for line in script)  # once, whatever the number of tasks
    assert job.number == "7"


def test_it_prints_what_the_job_prints_and_has_its_exit_code(tmp_path: Path, submit) -> None:
    job = submit()
    places: list[QueuedJob] = []

    def heard(place: QueuedJob) -> None:
        places.append(place)
        if place.state == "PENDING":
            (tmp_path / "queue").write_text("RUNNING|None|gpu|n[1-2]\n")
            return
        (tmp_path / "job" / "output.log").write_text("report: x\n")
        (tmp_path / "job" / "error.log").write_text("[1/3] baseline: done\n")
        (tmp_path / "queue").write_text("")
        (tmp_path / "job" / "7_0_result.pkl").write_bytes(cloudpickle.dumps(("success", 1)))

    ended, out, err = follow(job, heard)
    assert [place.state for place in places] == ["PENDING", "RUNNING"]
    assert ended.code == 1
    assert (out, err) == (b"report: x\n", b"[1/3] baseline: done\n")
    assert not list((tmp_path / "job").glob("*.pkl"))  # nobody shall ever need to unpickle what lies in a suite


def test_a_job_that_is_ended_from_outside_has_no_code_and_slurm_says_why(tmp_path: Path, submit) -> None:
    job = submit()
    ended, _, _ = follow(job, lambda _: (tmp_path / "queue").write_text(""))
    assert ended == JobEnd(None, "CANCELLED")


def test_one_that_is_interrupted_is_cancelled(tmp_path: Path, submit) -> None:
    job = submit()

    def interrupt(_place: QueuedJob) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        follow(job, interrupt)
    job.cancel()
    assert follow(job, interrupt)[0].code is None


def test_what_slurm_refuses(submit, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="invalid partition specified: nope"):
        submit("echo 'sbatch: error: invalid partition specified: nope' >&2; exit 1")
    assert capfd.readouterr() == ("", "")


def test_without_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="--launcher slurm: "):
        SlurmJob([], tmp_path, nodes=1, tasks_per_node=1, parameters={})
