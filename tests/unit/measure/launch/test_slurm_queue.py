import subprocess

import pytest

from perfkit.measure.launch import slurm_queue
from perfkit.measure.launch.slurm_queue import QueuedJob, find_queued_job, read_end_state


def answers(monkeypatch: pytest.MonkeyPatch, stdout: str = "", stderr: str = "", code: int = 0) -> None:
    def ask(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, code, stdout, stderr)

    monkeypatch.setattr(slurm_queue, "_run_query", ask)


def test_a_job_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, "PENDING|Resources|gpu|\n")
    assert find_queued_job("7") == QueuedJob("PENDING", "Resources", "gpu", "")


def test_a_job_that_slurm_has_forgotten_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, stderr="slurm_load_jobs error: Invalid job id specified\n", code=1)
    assert find_queued_job("7") is None
    answers(monkeypatch)
    assert find_queued_job("7") is None


def test_a_controller_that_does_not_answer_says_nothing_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, stderr="slurm_load_jobs error: Unable to contact slurm controller\n", code=1)
    with pytest.raises(OSError, match="Unable to contact"):
        find_queued_job("7")


@pytest.mark.parametrize(
    ("told", "ended"),
    [
        ("JobId=7 JobName=perfkit JobState=TIMEOUT Reason=TimeLimit Dependency=(null)", "TIMEOUT (TimeLimit)"),
        ("JobId=7 JobName=perfkit JobState=COMPLETED Reason=None Dependency=(null)", "COMPLETED"),
        ("", ""),
    ],
)
def test_how_a_job_ended(monkeypatch: pytest.MonkeyPatch, told: str, ended: str) -> None:
    answers(monkeypatch, told)
    assert read_end_state("7") == ended
