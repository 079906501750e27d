"""The Slurm job of this process: its nodes and CPUs, from Slurm's variables."""

import os
import re
import shutil
import subprocess
from typing import NamedTuple

from perfkit.core.errors import UsageError


class SlurmAllocation(NamedTuple):
    """`cpus_per_node` are those of the node that has fewest in the job."""

    job: str
    nodes: int
    cpus_per_node: int


def is_in_slurm_job() -> bool:
    """True in a Slurm job: in its script, in a step, or in the shell of salloc."""
    return "SLURM_JOB_ID" in os.environ


def read_allocation() -> SlurmAllocation:
    """Read this process's job. Raises a `UsageError` with advice if there is none."""
    if not is_in_slurm_job():
        raise UsageError(
            "--launcher slurm starts job steps, and this is not a Slurm job; run `perfkit bench --launcher "
            "slurm`, which submits one, or run the program in a job script"
        )
    job, cpus = os.environ["SLURM_JOB_ID"], min(_parse_cpus(os.environ["SLURM_JOB_CPUS_PER_NODE"]))
    if "SLURMD_NODENAME" not in os.environ:
        raise UsageError(
            f"--launcher slurm: this shell belongs to the Slurm job {job} but runs on none of its nodes; put "
            f"`srun --overlap --nodes=1 --ntasks=1 --cpus-per-task={cpus}` before the command"
        )
    return SlurmAllocation(job, nodes=int(os.environ["SLURM_JOB_NUM_NODES"]), cpus_per_node=cpus)


def find_other_node() -> str:
    """The name of another node of the job step that this process is a task of; "" where it has none."""
    if int(os.environ["SLURM_STEP_NUM_NODES"]) == 1 or shutil.which("scontrol") is None:
        return ""
    command = ["scontrol", "show", "hostnames", os.environ["SLURM_STEP_NODELIST"]]
    names = subprocess.run(command, check=False, capture_output=True, text=True).stdout.split()
    return next((name for name in names if name != os.environ["SLURMD_NODENAME"]), "")


def _parse_cpus(text: str) -> list[int]:
    """`72(x2),36` is 72 CPUs on two nodes and 36 on one."""
    return [int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?(?:,|$)", text)]
