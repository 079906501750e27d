"""The request of a suite, stored with it so that it can resume and grow under the same conditions."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from perfkit.core.spec import Scaling, Schedule, Struct, TechniqueSpec, WorkloadSpec
from perfkit.devices.accelerator import is_cpu

CounterSource = bool | Literal["ncu", "pm"]

# By option of `perfkit bench`, on the command line and in Python, the field of a request that it sets as it is.
OPTION_FIELDS = {
    "rounds": "rounds",
    "precision": "precision",
    "budget": "budget_s",
    "steps": "turns",
    "dtype": "dtype",
    "scaling": "scaling",
    "accumulate": "accumulation",
    "timeout": "timeout_s",
    "memory_limit": "memory_limit_bytes",
    "threads": "threads",
    "launcher": "launcher",
    "nnodes": "nodes",
    "rdzv_endpoint": "endpoint",
    "seed": "seed",
    "counters": "counters",
}


def make_rank_fields(sizes: Sequence[int]) -> dict[str, Any]:
    """The fields of a request of these numbers of ranks: none, one or several."""
    return {"world_size": sizes[0] if len(sizes) == 1 else None, "world_sizes": tuple(sizes) if len(sizes) > 1 else ()}


class BenchRequest(Struct):
    """Request of `perfkit bench`.

    `world_size` None lets techniques that need several ranks run with the number they need, and all others with one.
    Alternatively, `world_sizes` are several numbers of ranks, on each of which every variant runs that can, with a
    fixed batch per rank (weak `scaling`) or a fixed global batch, which is then the workload's (strong). `threads` None
    divides the CPU's cores among the ranks.

    Each variant is run once with its instruments. `rounds` of processes follow that are timed together; None: until the
    interval of every comparison is within `precision` (relative), or for `budget_s` seconds (None: five minutes, or
    three rounds if longer). `turns` is the number of turns of each process of a round; None: as many as fit into its
    start-up time. With `race_base`, variants are compared with this one of them, too: once a gain over the baseline is
    known to a tenth of it, rounds go on without the baseline, until the gain over `race_base` is known to half of it.
    With `race`, variants are compared with `race_base` (the baseline if empty) until it is decided which
    are faster: those that are certainly slower or faster, or that show no gain in a few rounds, are measured no
    further, however wide their intervals.

    `calibrate`: unknown ceilings of the machine are measured first, and exceeded ones again. `counters`: with `ncu` (or
    True) Nsight Compute counts the kernels of each variant of one rank, in a run of its own; with `pm` the GPU's
    performance monitors are sampled while steps are traced. `slurm`: options of sbatch by name for the job
    that measures the suite, True for those without a value.
    """

    workload: WorkloadSpec
    variants: tuple[tuple[TechniqueSpec, ...], ...]
    device: str
    device_count: int
    cores: int
    dtype: str = "fp32"
    seed: int = 0
    accumulation: int = 1
    schedule: Schedule = msgspec.field(default_factory=Schedule)
    rounds: int | None = None
    precision: float = 0.05
    budget_s: float | None = None
    turns: int | None = None
    world_size: int | None = None
    world_sizes: tuple[int, ...] = ()
    scaling: Scaling = "weak"
    threads: int | None = None
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None
    launcher: str = "process"
    nodes: int = 1
    endpoint: str = ""
    calibrate: bool = True
    counters: CounterSource = False
    race: bool = False
    race_base: tuple[TechniqueSpec, ...] = ()
    slurm: dict[str, str | bool] = {}

    @property
    def sizes(self) -> tuple[int, ...]:
        """The requested numbers of ranks; empty if automatic."""
        return self.world_sizes or (() if self.world_size is None else (self.world_size,))

    @property
    def by_turns(self) -> bool:
        """True if the processes of a round are resident together, which they are unless they share a GPU's memory and
        clocks.

        Nor where another launcher starts them, which talks to none of them.
        """
        return is_cpu(self.device) and self.rounds != 0 and self.launcher == "process"
