"""Results of a replay: its error, and the gains of changes."""

from perfkit.core.spec import Struct

# Types of critical-path segments, besides communication and copies (`time_split`).
HOST, LAUNCH, GEMM, ATTENTION, OTHER_KERNELS = "host", "launch", "GEMM", "attention", "other kernels"
WAITS, GAPS, BEFORE = "waits", "gaps between kernels", "before first recorded work"


class PathRow(Struct):
    """Segments of the critical path of one `kind`, op, module and line, over the whole trace as recorded.

    `op` is the launching op of device work, else the kernel's name; for the CPU, the innermost op of most of the time,
    else a range, else empty. `call` is the call that waited. `module` has no layer numbers. `line` is the line of the
    innermost function outside torch and Python's library. `longest_start_s` is since the beginning of the path.
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
    `step_path` are those of a mean step, as recorded (in total
    without steps). `segments` are its longest parts, as recorded. `ranks` is the number of ranks simulated together.
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
    step_path: dict[str, float] = {}


class SimulatedChange(Struct):
    """The gain of a change over the whole recording; None where `reason` says why.

    `step_gain_s` is its mean gain per step; None also without marked steps. `summed_s` is the summed time saved in its
    kernels: an upper bound. None without such a sum.
    """

    change: str
    gain_s: float | None
    share: float | None
    summed_s: float | None
    reason: str
    critical_path: dict[str, float]
    step_gain_s: float | None = None


class TouchedTime(Struct):
    """The time that a finding's change removes, all together at least its gain: seconds per step, in total without
    steps.

    `kernels_s` is work of the device, `gaps_s` idle time before kernels, `cpu_s` time of the CPU, `waits_s` the length
    of calls that no longer wait.
    """

    kernels_s: float
    gaps_s: float
    cpu_s: float
    waits_s: float

    @property
    def total_s(self) -> float:
        return self.kernels_s + self.gaps_s + self.cpu_s + self.waits_s

    def scale_by(self, factor: float) -> "TouchedTime":
        return TouchedTime(
            kernels_s=self.kernels_s * factor,
            gaps_s=self.gaps_s * factor,
            cpu_s=self.cpu_s * factor,
            waits_s=self.waits_s * factor,
        )


class FindingGains(Struct):
    """The simulated gains of a trace's findings: seconds per step, in total without steps.

    `by_finding` are the gains by rule, `touched` the time that each change removes. `together_s` is the gain of all at
    once, of a step of `step_s`: gains do not add up. `together_path` are the seconds by kind of the critical path that
    is left then, in total; empty where several ranks were simulated together. `roofs_s` is the gain of all work at its
    roof, where roofs are known. `reason` is why nothing is simulated, empty where it is.
    """

    by_finding: dict[str, float] = {}
    touched: dict[str, TouchedTime] = {}
    together_s: float | None = None
    together_path: dict[str, float] = {}
    roofs_s: float | None = None
    step_s: float = 0.0
    reason: str = ""
