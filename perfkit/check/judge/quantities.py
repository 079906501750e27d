"""The quantities that a check compares: what they are called, which way is worse, and how they can be judged."""

from dataclasses import dataclass
from enum import Enum, auto


class Judging(Enum):
    """How a quantity is judged, which depends on what repeats."""

    EXACT = auto()  # the same in every process: compared as it is, and first
    PAIRED = auto()  # from the steps of pairs of processes
    PROCESSES = auto()  # one figure a process: needs several processes of each side


@dataclass(frozen=True, kw_only=True)
class GatedQuantity:
    """`unit` is `s`, `bytes`, `FLOP`, `J`, `1` (a share) or "" (a count); `default` the threshold where none is set.

    `default` None: it is reported, and gated only where a threshold is set.
    """

    name: str
    title: str
    unit: str
    judging: Judging
    more_is_worse: bool = True
    default: str | None = None


# What is exact came out the same to the byte, and losses to the bit, in all three or four processes of each of eight
# variants on a CPU (gpt, resnet, a Transformers model; plain, amp, ckpt, compiled), after 10 to 30 steps of warming up.
# The thresholds of memory leave room for tensors that nobody minds; what is reserved depends on all requests before.
QUANTITIES = (
    GatedQuantity(name="peak_allocated", title="peak allocated", unit="bytes", judging=Judging.EXACT, default="0.5%"),
    GatedQuantity(name="peak_reserved", title="peak reserved", unit="bytes", judging=Judging.EXACT, default="2%"),
    GatedQuantity(name="flops", title="FLOPs a step", unit="FLOP", judging=Judging.EXACT, default="0%"),
    GatedQuantity(name="kernel_count", title="kernels a step", unit="", judging=Judging.EXACT, default="0%"),
    GatedQuantity(name="graph_breaks", title="graph breaks", unit="", judging=Judging.EXACT, default="+0"),
    GatedQuantity(name="parity", title="distance of the losses", unit="1", judging=Judging.EXACT, default="<=0.001"),
    GatedQuantity(name="cpu_time", title="CPU time a step", unit="s", judging=Judging.PAIRED, default="3%"),
    GatedQuantity(name="step_time", title="step time", unit="s", judging=Judging.PAIRED, default="5%"),
    GatedQuantity(name="throughput", title="throughput", unit="1/s", judging=Judging.PAIRED, more_is_worse=False),
    GatedQuantity(name="mfu", title="MFU", unit="1", judging=Judging.PAIRED, more_is_worse=False),
    GatedQuantity(name="compile_time", title="compile time", unit="s", judging=Judging.PROCESSES),
    GatedQuantity(name="data_wait", title="waiting for data", unit="s", judging=Judging.PROCESSES),
    GatedQuantity(name="exposed_communication", title="exposed communication", unit="s", judging=Judging.PROCESSES),
    GatedQuantity(name="energy", title="energy a step", unit="J", judging=Judging.PROCESSES),
)
