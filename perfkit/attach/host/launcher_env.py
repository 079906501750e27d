"""Reads the launcher's environment before torch is imported: this process's rank, and defaults."""

import os
from collections.abc import Iterable
from typing import NamedTuple

# Stack samples per second, default and maximum: docs/attach.md gives the cost.
STACKS_HZ, MOST_HZ = 100, 1000


class _LauncherVariables(NamedTuple):
    """The launcher's variables for a rank, and for its number on its machine."""

    rank: str
    local_rank: str


# The first that is set counts: torchrun and the others that set RANK may run within a job of the next ones.
_LAUNCHERS = {
    "torchrun, Ray Train, Accelerate, Kubeflow": _LauncherVariables("RANK", "LOCAL_RANK"),
    "Open MPI": _LauncherVariables("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"),
    "MPICH, Intel MPI": _LauncherVariables("PMI_RANK", "MPI_LOCALRANKID"),
    "Slurm": _LauncherVariables("SLURM_PROCID", "SLURM_LOCALID"),
}


def read_rank() -> int:
    """The rank from the launcher, before there is a process group; 0 without one."""
    return _read_first_number(names.rank for names in _LAUNCHERS.values())


def read_local_rank() -> int:
    """Its number among the ranks of this machine, which is that of its GPU; 0 where no launcher gave one."""
    return _read_first_number(names.local_rank for names in _LAUNCHERS.values())


def _read_first_number(names: Iterable[str]) -> int:
    value = next((os.environ[name] for name in names if name in os.environ), "0")
    return int(value) if value.isdigit() else 0
