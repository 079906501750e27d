"""Work of a step: shares of its time, ops and kernels, and kernels that the trace lacks."""

from typing import Final

# Not at the top: results of traces import the definitions above.
from perfkit.device_calls import TOLERATED
from perfkit.spec import Struct

# The direction of a figure's error where work was lost; "" where none was.
AT_LEAST: Final = "at least"


AT_MOST: Final = "at most"


ABOUT: Final = "about"

# The phase of work outside steps, and the kind of a row for work too short for its own row.
OUTSIDE, REST = "outside steps", "rest"


class LostKernels(Struct):
    """Kernels of the steps that were launched (`launched`), and of which a trace has no time (`lost`, `share` of them).

    `without_time` of the lost ones have a record, but no time in it. `mixed_up_graphs` launches of CUDA graphs share no
    id with a kernel, though the kernels are there. `profiler` is the version of CUPTI that the trace names, with
    `known_fault` if that is known to lose records.
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

    `kind` is `kernel`, `op`, `module`, `phase`, `step` (`trace` where it has no steps), or `rest` for what is too short
    for a row of its own. `intensity` is FLOP/byte and `flops_per_s` FLOP/s, None for what has no place on a roofline.
    `attainable_s` is max(FLOPs / peak, bytes / bandwidth); `bound` names the ceiling that it comes from (`compute`,
    `memory`; `overhead` for calls too small for either; `unknown`), or is `communication` or `copy`. `level` is the
    memory level held against it. `above_roof` marks a cost or a ceiling that must be wrong. `efficiency_reason` says
    why there is no `efficiency` where the cost is known: what is faster than its roof has no share of it. `op` is set
    on a kernel's row: the op it ran for. `shapes` are the inputs of an op where all its calls share them. `seconds` are
    summed over threads and streams; where these overlap, `wall_s` is how long any of it was going on, at most, and
    `share` is of that. `critical_s` is the time of those that lie on the critical path of the trace. `layout` of a
    matrix product is `row,column` where its first operand's rows and its second one's columns are contiguous in memory,
    likewise the others.

    Where data decide how much is done, `flops` and `bytes` are the least it can be, `max_flops` and `max_bytes` the
    most; `attainable_s` is that of the most, within the time taken. `is_estimate`: the bytes are those of the recorded
    arguments of an op that no formula knows, which is neither the least nor the most.
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
