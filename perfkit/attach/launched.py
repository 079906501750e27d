"""Which rank a launcher says this process is; known before torch is imported."""

import os

# What torchrun, MPI and Slurm call a rank.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def launched_rank() -> int:
    """The rank that a launcher gave this process, before there is a process group; 0 where none did."""
    given = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    return int(given) if given.isdigit() else 0
