"""The Slurm job that this process is part of: its nodes and CPUs, as Slurm's variables tell."""

import os
import re
from typing import NamedTuple

from perfkit.errors import UsageError


class Allocation(NamedTuple):
    """`cpus_per_node` are those of the node that has fewest in the job."""

    job: str
    nodes: int
    cpus_per_node: int


def in_slurm_job() -> bool:
    """Whether this process runs on a node of a Slurm job, in its script or in a step of it."""
    return "SLURM_JOB_ID" in os.environ and "SLURMD_NODENAME" in os.environ


def allocation_here() -> Allocation:
    """The job of which this process is part. A `UsageError` with what to do where there is none."""
    if "SLURM_JOB_ID" not in os.environ:
        raise UsageError(
            "--launcher slurm starts job steps, and this is no Slurm job: run `perfkit bench --launcher slurm`, which "
            "submits one, or put the program into a job's script"
        )
    if not in_slurm_job():
        raise UsageError(
            f"--launcher slurm: this shell is of the Slurm job {os.environ['SLURM_JOB_ID']} and on none of its nodes, "
            "which are to be measured: put `srun --overlap --nodes=1 --ntasks=1` before the command"
        )
    return Allocation(
        job=os.environ["SLURM_JOB_ID"],
        nodes=int(os.environ["SLURM_JOB_NUM_NODES"]),
        cpus_per_node=min(_cpus(os.environ["SLURM_JOB_CPUS_PER_NODE"])),
    )


def _cpus(told: str) -> list[int]:
    """`72(x2),36` is 72 CPUs on two nodes and 36 on one."""
    return [int(count) for count in re.findall(r"(\d+)(?:\(x\d+\))?(?:,|$)", told)]
