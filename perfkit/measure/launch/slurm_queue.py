"""The state of a job from squeue and scontrol: without Slurm's accounting, sacct has no record of a job."""

import re
import subprocess
from typing import NamedTuple

_GONE = "Invalid job id"


class QueuedJob(NamedTuple):
    """A job that has not ended: `PENDING`, `RUNNING`, `COMPLETING` ...; `reason` is why it is pending."""

    state: str
    reason: str
    partition: str
    nodes: str


def find_queued_job(job: str) -> QueuedJob | None:
    """A job in the queue; None if it has ended or never existed.

    Raises OSError with Slurm's message if it does not answer.
    """
    asked = _run_query("squeue", "--noheader", f"--jobs={job}", "--format=%T|%r|%P|%N")
    if asked.returncode and _GONE not in asked.stderr:
        raise OSError(asked.stderr.strip())
    lines = asked.stdout.splitlines()
    return QueuedJob(*lines[0].split("|", 3)) if lines else None


def read_end_state(job: str) -> str:
    """`TIMEOUT`, `CANCELLED (reason)` ...; "" where Slurm has forgotten the job, which it does after minutes."""
    record = _run_query("scontrol", "--oneliner", "show", "job", job).stdout
    state = re.search(r"\bJobState=(\S+)", record)
    reason = re.search(r"\bReason=(\S+)", record)
    if state is None:
        return ""
    return state[1] if reason is None or reason[1] == "None" else f"{state[1]} ({reason[1]})"


def _run_query(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)
