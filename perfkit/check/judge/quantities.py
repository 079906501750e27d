"""The quantities that a check compares: what they are called, which way is worse, and how they can be judged."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge import readings
from perfkit.check.judge.readings import Reading, one, per_process


class Judging(Enum):
    """How a quantity is judged, which depends on what repeats."""

    EXACT = auto()  # the same in every process: compared as it is, and first
    PAIRED = auto()  # from the steps of pairs of processes
    PROCESSES = auto()  # one figure a process: needs several processes of each side


@dataclass(frozen=True)
class GatedQuantity:
    """`unit` is `s`, `bytes`, `FLOP`, `J`, `1` (a share) or "" (a count); `default` the threshold where none is set.

    `default` None: it is reported, and gated only where a threshold is set. `read` finds it in a variant; None for
    losses, which are no figure, and for what tests measure themselves.
    """

    name: str
    title: str
    unit: str
    judging: Judging
    read: Callable[[Variant], Reading] | None = None
    default: str | None = None
    more_is_worse: bool = True


# What is exact came out the same to the byte, and losses to the bit, in all three or four processes of each of eight
# variants on a CPU (gpt, resnet, a Transformers model; plain, amp, ckpt, compiled), after 10 to 30 steps of warming up.
# The thresholds of memory leave room for tensors that nobody minds; what is reserved depends on all requests before.
QUANTITIES = (
    GatedQuantity("peak_allocated", "peak allocated", "bytes", Judging.EXACT, one("peak_allocated"), "0.5%"),
    GatedQuantity("peak_reserved", "peak reserved", "bytes", Judging.EXACT, one("peak_reserved"), "2%"),
    GatedQuantity("flops", "FLOPs a step", "FLOP", Judging.EXACT, one("hardware_flops"), "0%"),
    GatedQuantity("kernel_count", "kernels a step", "", Judging.EXACT, readings.kernels, "0%"),
    GatedQuantity("graph_breaks", "graph breaks", "", Judging.EXACT, readings.graph_breaks, "+0"),
    GatedQuantity("parity", "distance of the losses", "1", Judging.EXACT, None, "<=0.001"),
    GatedQuantity("cpu_time", "CPU time a step", "s", Judging.PAIRED, per_process("cpu_time"), "3%"),
    GatedQuantity("step_time", "step time", "s", Judging.PAIRED, per_process("step_time"), "5%"),
    GatedQuantity("throughput", "throughput", "1/s", Judging.PAIRED, per_process("throughput"), more_is_worse=False),
    GatedQuantity("mfu", "MFU", "1", Judging.PAIRED, readings.mfu, more_is_worse=False),
    GatedQuantity("compile_time", "compile time", "s", Judging.PROCESSES, readings.compile_time),
    GatedQuantity("data_wait", "waiting for data", "s", Judging.PROCESSES, readings.data_wait),
    GatedQuantity(
        "exposed_communication", "exposed communication", "s", Judging.PROCESSES, readings.exposed_communication
    ),
    GatedQuantity("energy", "energy a step", "J", Judging.PROCESSES, one("energy_per_step")),
)
