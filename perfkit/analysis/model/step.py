"""What ran in a step: shares of its time, ops and kernels, and what of it the trace lacks."""

from perfkit.device_calls import TOLERATED
from perfkit.spec import Struct

# On which side of a figure the truth lies, where work was lost that it should count; "" where nothing was.
AT_LEAST, AT_MOST, ABOUT = "at least", "at most", "about"


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
        """Whether figures are bounds only."""
        return self.share > TOLERATED


class TimeShare(Struct):
    """A part of the step: seconds per step and share of it. Shares of a step sum to 1.

    `bound` is `at least`, `at most` or `about` where kernels were lost.
    """

    category: str
    seconds: float
    share: float
    bound: str = ""


class RooflinePoint(Struct):
    """A kernel, op, module, phase or step on the roofline.

    `kind` is `kernel`, `op`, `module`, `phase` or `step`. `intensity` is FLOP/byte and `achieved` FLOP/s.
    `attainable_s` is max(FLOPs / peak, bytes / bandwidth) per step; `bound` names the ceiling it comes from
    (`compute`, `memory`; `overhead` for calls too small for either; `unknown`), `level` the memory level held
    against it. `achieved` above the roof is flagged in `above_roof`: a modelling error, not a feat.
    `shapes` are the inputs of an op where all its calls share them.
    """

    kind: str
    name: str
    calls: float
    seconds: float
    share: float
    flops: float
    bytes: float
    intensity: float
    achieved: float
    unit: str
    dtype: str
    bound: str
    attainable_s: float | None
    above_roof: bool = False
    level: str = "memory"
    shapes: str = ""


class OpRow(Struct):
    """A row of a table of ops, kernels or modules, per step. None where it is not modelled or not known.

    `bound` is as for a `RooflinePoint`, or `communication` or `copy`. `op` is set on a kernel's row: the op it ran for.
    `above_roof` marks a cost that must be wrong, since no device is that fast.
    """

    name: str
    phase: str
    module: str
    shapes: str
    calls: float
    seconds: float
    share: float
    flops: float | None
    bytes: float | None
    intensity: float | None
    bound: str
    attainable_s: float | None
    efficiency: float | None
    cost_source: str
    op: str = ""
    unit: str = ""
    dtype: str = ""
    level: str = ""
    above_roof: bool = False
