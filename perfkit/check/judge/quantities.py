"""The table of quantities that a check compares: titles, directions, judging methods."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge import readings
from perfkit.check.judge.readings import Reading, make_estimate_reader, make_quantity_reader

UTILIZATION = "mfu"


class JudgingMethod(Enum):
    """The method of judging a quantity, by its repeatability."""

    EXACT = auto()  # the same in every process: compared exactly, and first
    PAIRED = auto()  # from the steps of pairs of processes
    PROCESSES = auto()  # one figure per process: needs several processes per side


@dataclass(frozen=True)
class GatedQuantity:
    """`unit` is `s`, `bytes`, `FLOP`, `J`, `1` (a share) or "" (a count); `default` the threshold where none is set.

    `default` None: reported, and gated only with a configured threshold. `read` reads the quantity of a variant; None
    for losses and for quantities that tests measure.
    """

    name: str
    title: str
    unit: str
    judging: JudgingMethod
    read: Callable[[Variant], Reading] | None = None
    default: str | None = None
    more_is_worse: bool = True


# Exact quantities were equal to the byte, and losses to the bit, in all three or four processes of eight CPU variants
# (gpt, resnet, a Transformers model; plain, amp, ckpt, compiled), after 10 to 30 warm-up steps. Memory thresholds
# tolerate small tensors; reserved memory depends on all earlier requests.
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
    GatedQuantity("parity", "loss difference", "1", JudgingMethod.EXACT, None, "<=0.001"),
    GatedQuantity("cpu_time", "CPU time per step", "s", JudgingMethod.PAIRED, make_estimate_reader("cpu_time"), "3%"),
    GatedQuantity("step_time", "step time", "s", JudgingMethod.PAIRED, make_estimate_reader("step_time"), "5%"),
    GatedQuantity(
        "throughput", "throughput", "1/s", JudgingMethod.PAIRED, make_estimate_reader("throughput"), more_is_worse=False
    ),
    GatedQuantity(UTILIZATION, "MFU", "1", JudgingMethod.PAIRED, readings.read_mfu, more_is_worse=False),
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
