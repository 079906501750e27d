"""What a suite was asked for: kept with it, so that it can go on and grow under the same conditions."""

import msgspec

from perfkit.spec import Schedule, Struct, TechniqueSpec, WorkloadSpec


class BenchRequest(Struct):
    """What `perfkit bench` was asked for.

    `world_size` None lets techniques that need several ranks run with as many as they need, and all others
    with one. `threads` None divides the CPU's cores among the ranks.

    Each variant is run once with its instruments. `rounds` of processes follow that are timed beside each other; None:
    until the interval of every comparison reaches no further than `precision` (relative) to either side, or for
    `budget_s` seconds (None: five minutes, or three rounds where those take longer). `turns` is how many times each
    process of a round steps; None: for as long as it took to start.
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
    threads: int | None = None
    timeout_s: float = 600.0
    memory_limit_bytes: int | None = None
    launcher: str = "process"
    nodes: int = 1
    endpoint: str = ""

    @property
    def by_turns(self) -> bool:
        """Whether the processes of a round are resident together: where they do not share a GPU's memory and clocks.

        Nor where another launcher starts them, which talks to none of them.
        """
        return self.device == "cpu" and self.rounds != 0 and self.launcher == "process"
