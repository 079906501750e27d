"""Results of a replay: how well it reproduces a recording, and what a change would gain."""

from perfkit.spec import Struct

# What a critical path is made of, beside communication and copies (`time_split`).
HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS = "host", "launch", "GEMM", "attention", "other kernels"
WAITS, GAPS, BEFORE = "waits", "gaps between kernels", "before the first recorded work"


class Replay(Struct):
    """A recording replayed unmodified.

    `error` is `replayed_s / recorded_s - 1`. `refused` is why no gain is simulated, empty where gains are. `busy` is
    the device's share of the time. `critical_path` are seconds by kind of work, which sum to `replayed_s`.
    """

    recorded_s: float
    replayed_s: float
    error: float
    nodes: int
    busy: float
    refused: str
    critical_path: dict[str, float]


class Simulated(Struct):
    """What a change would gain of the whole recording; None where `refused` says why not.

    `step_gain_s` is what it would gain of a step, the mean over all of them; None also where the host marks no steps.
    `summed_s` is what its kernels would take less, added up: an upper bound. None where there is no such sum.
    """

    what: str
    gain_s: float | None
    share: float | None
    summed_s: float | None
    refused: str
    critical_path: dict[str, float]
    step_gain_s: float | None = None
