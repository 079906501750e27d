"""Results of a replay: its error, and the gains of changes."""

from perfkit.spec import Struct

# Types of critical-path segments, besides communication and copies (`time_split`).
HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS = "host", "launch", "GEMM", "attention", "other kernels"
WAITS, GAPS, BEFORE = "waits", "gaps between kernels", "before first recorded work"


class PathRow(Struct):
    """Stretches of the critical path of one `kind`, op, module and line, of the whole trace as recorded.

    Of what runs on a device the op that launched it, else the kernel's name; of the host the innermost op that takes
    most of it, a range where neither an op nor a function is known, else empty. `call` is the one that waited.
    `module` is without the numbers of layers; `line` is that of the innermost function that is neither torch's nor of
    Python's library. `longest_start_s` is since the beginning of the path.
    """

    kind: str
    op: str
    call: str
    module: str
    line: str
    segments: int
    seconds: float
    longest_s: float
    longest_start_s: float


class ReplaySummary(Struct):
    """A recording replayed unmodified.

    `error` is `replayed_s / recorded_s - 1`. `reason` is why no gain is simulated, empty where gains are. `busy_share`
    is the device's share of the time. `critical_path` are seconds by kind of work, which sum to `replayed_s`;
    `segments` are what of it lasts longest, as recorded. Gains are simulated with that many `ranks` at once.
    """

    recorded_s: float
    replayed_s: float
    error: float
    nodes: int
    busy_share: float
    reason: str
    critical_path: dict[str, float]
    segments: tuple[PathRow, ...] = ()
    ranks: int = 1


class SimulatedChange(Struct):
    """The gain of a change over the whole recording; None where `refused` says why.

    `step_gain_s` is what it would gain of a step, the mean over all of them; None also where the host marks no steps.
    `summed_s` is what its kernels would take less, added up: an upper bound. None where there is no such sum.
    """

    change: str
    gain_s: float | None
    share: float | None
    summed_s: float | None
    reason: str
    critical_path: dict[str, float]
    step_gain_s: float | None = None


class FindingGains(Struct):
    """The simulated gains of a trace's findings: seconds per step, in total without steps.

    `by_finding` is by the rule that found it; `together_s` is all of them at once, of a step of `step_s`: they do not
    add up. `roofs_s` is what work at its roof would gain, where roofs are known. `reason` is why nothing is simulated,
    empty where it is.
    """

    by_finding: dict[str, float] = {}
    together_s: float | None = None
    roofs_s: float | None = None
    step_s: float = 0.0
    reason: str = ""
