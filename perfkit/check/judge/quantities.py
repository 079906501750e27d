"""The quantities that a check compares: what they are called, which way is worse, and how they can be judged."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge import readings
from perfkit.check.judge.readings import Reading, make_estimate_reader, make_quantity_reader


class JudgingMethod(Enum):
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
    judging: JudgingMethod
    read: Callable[[Variant], Reading] | None = None
    default: str | None = None
    more_is_worse: bool = True


# What is exact came out the same to the byte, and losses to the bit, in all three or four processes of each of eight
# variants on a CPU (gpt, resnet, a Transformers model; plain, amp, ckpt, compiled), after 10 to 30 steps of warming up.
# The thresholds of memory leave room for tensors that nobody minds; what is reserved depends on all requests before.
QUANTITIES = (
    GatedQuantity(
        "peak_allocated", "peak allocated", "bytes", JudgingMethod.EXACT, make_quantity_reader("peak_allocated"), "0.5%"
    ),
    GatedQuantity(
        "peak_reserved", "peak reserved", "bytes", JudgingMethod.EXACT, make_quantity_reader("peak_reserved"), "2%"
    ),
    GatedQuantity("flops", "FLOPs per step", "FLOP", JudgingMethod.EXACT, make_quantity_reader("hardware_flops"), "0%"),
    GatedQuantity("kernel_count", "kernels per step", "", JudgingMethod.EXACT, readings.read_kernels, "0%"),
    GatedQuantity("graph_breaks", "graph breaks", "", JudgingMethod.EXACT, readings.read_graph_breaks, "+0"),
    GatedQuantity("parity", "distance of the losses", "1", JudgingMethod.EXACT, None, "<=0.001"),
    GatedQuantity("cpu_time", "CPU time per step", "s", JudgingMethod.PAIRED, make_estimate_reader("cpu_time"), "3%"),
    GatedQuantity("step_time", "step time", "s", JudgingMethod.PAIRED, make_estimate_reader("step_time"), "5%"),
    GatedQuantity(
        "throughput", "throughput", "1/s", JudgingMethod.PAIRED, make_estimate_reader("throughput"), more_is_worse=False
    ),
    GatedQuantity("mfu", "MFU", "1", JudgingMethod.PAIRED, readings.read_mfu, more_is_worse=False),
    GatedQuantity("compile_time", "compile time", "s", JudgingMethod.PROCESSES, readings.read_compile_time),
    GatedQuantity("data_wait", "data wait", "s", JudgingMethod.PROCESSES, readings.read_data_wait),
    GatedQuantity(
        "exposed_communication",
        "exposed communication",
        "s",
        JudgingMethod.PROCESSES,
        readings.read_exposed_communication,
    ),
    GatedQuantity("energy", "energy per step", "J", JudgingMethod.PROCESSES, make_quantity_reader("energy_per_step")),
)
