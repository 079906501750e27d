"""What Slurm says of a job, asked of squeue and scontrol: without its accounting, sacct knows nothing of a job."""

import re
import subprocess
from typing import NamedTuple

_GONE = "Invalid job id"


class Queued(NamedTuple):
    """A job that has not ended: `PENDING`, `RUNNING`, `COMPLETING` ...; `reason` is why it is pending."""

    state: str
    reason: str
    partition: str
    nodes: str


def queued(job: str) -> Queued | None:
    """A job as it is in the queue; None where it has ended or was never there.

    OSError where Slurm does not answer, with what it says.
    """
    asked = _ask("squeue", "--noheader", f"--jobs={job}", "--format=%T|%r|%P|%N")
    if asked.returncode and _GONE not in asked.stderr:
        raise OSError(asked.stderr.strip())
    lines = asked.stdout.splitlines()
    return Queued(*lines[0].split("|", 3)) if lines else None


def how_ended(job: str) -> str:
    """`TIMEOUT`, `CANCELLED (reason)` ...; "" where Slurm has forgotten the job, which it does after minutes."""
    told = _ask("scontrol", "--oneliner", "show", "job", job).stdout
    state = re.search(r"\bJobState=(\S+)", told)
    reason = re.search(r"\bReason=(\S+)", told)
    if state is None:
        return ""
    return state[1] if reason is None or reason[1] == "None" else f"{state[1]} ({reason[1]})"


def _ask(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)
