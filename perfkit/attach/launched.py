"""What is known before torch is imported: which rank a launcher says this process is, and defaults."""

import os

# How often a second Python stacks are sampled, by default and at most: docs/attach.md says what it costs.
STACKS_HZ, MOST_HZ = 100, 1000

# What torchrun, MPI and Slurm call a rank.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def launched_rank() -> int:
    """The rank that a launcher gave this process, before there is a process group; 0 where none did."""
    given = next((os.environ[name] for name in _RANKS if name in os.environ), "0")
    return int(given) if given.isdigit() else 0
