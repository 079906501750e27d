"""Work of a step: shares of its time, ops and kernels, as trees too, and kernels that the trace lacks."""

from typing import Final

from perfkit.core.spec import Struct
from perfkit.devices.device_calls import TOLERATED

# The keys of trees, the kinds of their nodes, and the values of each node.
BY_MODULE, BY_LAYER, BY_STACK, BY_PHASE = "module", "layer", "stack", "phase"
MODULE, FRAME, PHASE, OP, KERNEL = "module", "frame", "phase", "op", "kernel"
TIME, CRITICAL, ABOVE, FLOPS, BYTES = "time", "critical", "above", "flops", "bytes"


class FlameGraph(Struct):
    """A tree as columns, a row a node: `parent` is a row before it, -1 of those at the top.

    `name` and `kind` index `names` and `kinds`. `values` are per step, of each node with all beneath it: seconds of
    work (summed over streams or threads), those on the critical path and above what the roofs allow, FLOPs and bytes.
    What is not known counts as none. Nodes that are less than `min_share` of every value are left out.
    """

    grouping: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    parent: tuple[int, ...]
    name: tuple[int, ...]
    kind: tuple[int, ...]
    values: dict[str, tuple[float, ...]]
    min_share: float


# The direction of a figure's error where work was lost; "" where none was.
AT_LEAST: Final = "at least"


AT_MOST: Final = "at most"


ABOUT: Final = "about"

# The phase of work outside steps, and the kind of a row for work too short for its own row.
OUTSIDE, REST = "outside steps", "rest"


class LostKernels(Struct):
    """Kernels launched in the steps (`launched`), and those without a time in the trace (`lost`, `share` of them).

    `without_time` of the lost ones have a record without a time. `mixed_up_graphs` launches of CUDA graphs share no id
    with a kernel, though the kernels exist. `profiler` is the version of CUPTI in the trace. `known_fault` is set if
    this version is known to lose records.
    """

    launched: int
    lost: int
    without_time: int
    share: float
    mixed_up_graphs: int = 0
    profiler: str = ""
    known_fault: bool = False

    @property
    def matters(self) -> bool:
        """True if figures are only bounds."""
        return self.share > TOLERATED


class DeviceClockSkew(Struct):
    """A device's clock that disagrees with the CPU's: a `share` of kernels begin up to `size_s` before their launch.

    `is_compensated` where all of the device's times were shifted by as much; else gaps shorter than `least_gap_s` have
    no known cause.
    """

    size_s: float
    share: float
    is_compensated: bool
    least_gap_s: float


class OverrunningKernels(Struct):
    """Kernels and copies of the steps that end after the next of their stream begins, which is impossible.

    `kernels` of `recorded` ones are clipped there. `clipped_s` is what is left of their time, `excess_s` what was cut,
    `longest_s` the most of one.
    """

    kernels: int
    recorded: int
    clipped_s: float
    excess_s: float
    longest_s: float


class TimeShare(Struct):
    """A part of the step: seconds per step and share of it. Shares of a step sum to 1.

    `bound` is `at least`, `at most` or `about` where kernels were lost.
    """

    category: str
    seconds: float
    share: float
    bound: str = ""


class OpRow(Struct):
    """Some work, per step: a row of a table, and a dot of the roofline. None where not modeled or unknown.

    `kind` is `kernel`, `op`, `module`, `phase`, `step` (`trace` without steps), or `rest` for work too short for its
    own row. `intensity` is FLOP/byte. `flops_per_s` is FLOP/s, None without a place on the roofline. `attainable_s` is
    max(FLOPs / peak, bytes / bandwidth). `bound` is the ceiling behind it (`compute`, `memory`; `overhead` for calls
    too small for either; `unknown`), or `communication` or `copy`. `level` is the memory level compared with.
    `above_roof` marks a wrong cost or ceiling. `efficiency_reason` says why there is no `efficiency` where the cost is
    known: work faster than its roof has no share of it. `op` is set on a kernel's row: the op it ran for; its
    `module` has no layer numbers, since it spans layers, and names the one of most time. `shapes` are
    the inputs of an op where all its calls share them. `seconds` are summed over threads and streams. `wall_s` is an
    upper bound on the time with any of it running, where these overlap, and the base of `share`. `critical_s` is the
    time on the critical path of the trace. `layout` of a matrix product is `row,column` where its first operand's rows
    and its second one's columns are contiguous in memory, likewise the others. `device` is the name of the device that
    it ran on, where a trace has several kinds of them.

    `flops` and `bytes` are lower bounds where the amount of work depends on data. `max_flops` and `max_bytes` are the
    upper bounds; `attainable_s` is that of the upper bounds, within the time taken. `is_estimate` is set where the
    bytes are those of the recorded arguments of an op without a formula, neither a lower nor an upper bound.

    `all_calls` are those of the whole trace that the row stands for. `least_s`, `median_s` and `p99_s` are the shortest
    of them, the median and the 99th percentile. `blocks_per_sm`, `sm_efficiency` (blocks per SM, at most 1) and
    `occupancy` (active warps per SM over the most) of kernels are estimates, weighted with the calls' durations.
    """

    kind: str
    name: str
    phase: str = ""
    module: str = ""
    shapes: str = ""
    calls: float
    seconds: float
    share: float
    flops: float | None
    bytes: float | None
    intensity: float | None
    flops_per_s: float | None
    bound: str
    attainable_s: float | None
    efficiency: float | None = None
    cost_source: str = ""
    op: str = ""
    unit: str = ""
    dtype: str = ""
    level: str = ""
    above_roof: bool = False
    efficiency_reason: str = ""
    max_flops: float | None = None
    max_bytes: float | None = None
    is_estimate: bool = False
    wall_s: float | None = None
    critical_s: float | None = None
    layout: str = ""
    all_calls: int | None = None
    least_s: float | None = None
    median_s: float | None = None
    p99_s: float | None = None
    blocks_per_sm: float | None = None
    sm_efficiency: float | None = None
    occupancy: float | None = None
    device: str = ""
