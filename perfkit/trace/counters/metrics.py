"""Computes FLOPs and bytes of a launch from Nsight Compute metrics.

Sources: the metric names and the roofline's arithmetic are those of the sections that Nsight Compute ships,
`SpeedOfLight_HierarchicalSingleRooflineChart`, `...HalfRooflineChart`, `...DoubleRooflineChart` and
`...TensorRooflineChart` (folder `sections` of an installation): work = fadd + fmul + 2 ffma per thread instruction
(`derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2`), twice that for half precision, whose instructions work
on pairs (`..._hfma_pred_on_x4`); traffic = `dram__bytes`. The method is that of Yang, Kurth and Williams, "Hierarchical
Roofline Analysis for GPUs" (2020), tables I to III, which adds `lts__t_bytes` and `l1tex__t_bytes` for L2 and L1.
A section counts per elapsed cycle and a `--metrics` list counts sums; both are read.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

Metrics = Mapping[str, float]

SECTOR_BYTES = 32  # of L2, CUDA's Kernel Profiling Guide, "Metrics Decoder"

TIME = "gpu__time_duration.sum"
TENSOR_INSTRUCTIONS = "inst_executed_pipe_tensor"

# Thread instruction: floating-point operations each.
INSTRUCTIONS = {
    "fadd": 1, "fmul": 1, "ffma": 2,
    "hadd": 2, "hmul": 2, "hfma": 4,
    "dadd": 1, "dmul": 1, "dfma": 2,
}  # fmt: skip
SINGLE = ("fadd", "fmul", "ffma")

# Operations of a tensor instruction (HMMA.884) on compute capability 7.0, as in the tensor section of that time
# (`derived__sm__inst_executed_pipe_tensor_x512`). Later chips have several shapes of it: there `sm__ops_path_*` tells.
_VOLTA = "7.0"
_VOLTA_OPS = 512

_OPS_PATH = re.compile(
    r"sms?p?__ops_path_tensor_(?P<op>op_\w+?_)?src_(?P<source>\w+?)(?P<to>_dst_\w+?)?(?P<split>_sparsity_o\w+)?\.sum$"
)


class LaunchCounts(NamedTuple):
    """The counts of one launch; None where the export lacks them. `seconds` is the launch's time under the profiler."""

    seconds: float | None
    flops: float | None
    dram_bytes: float | None
    l2_bytes: float | None
    l1_bytes: float | None


def compute_launch_counts(metrics: Metrics, capability: str) -> LaunchCounts:
    """FLOPs, traffic and time of a launch from its metrics in base units (byte, second, cycle/second)."""
    seconds = get_first_metric(metrics, TIME, "gpu__time_duration.avg", "Duration")
    return LaunchCounts(
        seconds=seconds,
        flops=_compute_flops(metrics, seconds, capability),
        dram_bytes=_compute_dram_bytes(metrics, seconds),
        l2_bytes=_compute_cache_bytes(metrics, "lts__t", seconds),
        l1_bytes=_compute_cache_bytes(metrics, "l1tex__t", seconds),
    )


def get_first_metric(metrics: Metrics, *names: str) -> float | None:
    """The first of these metrics that the launch has."""
    return next((metrics[name] for name in names if name in metrics), None)


def _compute_flops(metrics: Metrics, seconds: float | None, capability: str) -> float | None:
    vector = _compute_vector_flops(metrics, seconds)
    tensor = _compute_tensor_flops(metrics, seconds, capability)
    return None if vector is None or tensor is None else vector + tensor


def _compute_vector_flops(metrics: Metrics, seconds: float | None) -> float | None:
    """The vector FLOPs; None where single precision was not collected; other missing precisions count as unused."""
    total = 0.0
    for name, flops in INSTRUCTIONS.items():
        count = _sum_metric(metrics, f"sass_thread_inst_executed_op_{name}_pred_on", seconds, flops)
        if count is None and name in SINGLE:
            return None
        total += count or 0.0
    return total


def _sum_metric(metrics: Metrics, name: str, seconds: float | None, factor: int) -> float | None:
    """`factor` times a sum, from the sum itself, from its rate per cycle, or from the section's derived rate."""
    for unit in ("smsp", "sm"):
        total = metrics.get(f"{unit}__{name}.sum")
        if total is not None:
            return total * factor
        hertz = metrics.get(f"{unit}__cycles_elapsed.avg.per_second")
        if hertz is None or seconds is None:
            continue
        rate = metrics.get(f"{unit}__{name}.sum.per_cycle_elapsed")
        if rate is not None:
            return rate * factor * hertz * seconds
        derived = metrics.get(f"derived__{unit}__{name}_x{factor}")
        if derived is not None:
            return derived * hertz * seconds
    return None


def _compute_tensor_flops(metrics: Metrics, seconds: float | None, capability: str) -> float | None:
    """Operations on the tensor cores: those counted by operand type, else from instructions where one shape exists."""
    by_source: dict[str, dict[int, float]] = {}
    for name, value in metrics.items():
        if path := _OPS_PATH.match(name):
            detail = bool(path["to"]) + 2 * bool(path["split"]) + 4 * bool(path["op"])
            levels = by_source.setdefault(path["source"], {})
            levels[detail] = levels.get(detail, 0.0) + value
    if by_source:
        # A metric that names no destination, sparsity or instruction is the sum of those that do.
        return sum(levels[min(levels)] for levels in by_source.values())
    instructions = _sum_metric(metrics, TENSOR_INSTRUCTIONS, seconds, 1)
    if instructions is None or instructions == 0:
        return instructions
    return instructions * _VOLTA_OPS if capability == _VOLTA else None


def _compute_dram_bytes(metrics: Metrics, seconds: float | None) -> float | None:
    total = get_first_metric(metrics, "dram__bytes.sum")
    if total is not None:
        return total
    read = get_first_metric(metrics, "dram__bytes_read.sum", "dram__bytes_op_read.sum")
    written = get_first_metric(metrics, "dram__bytes_write.sum", "dram__bytes_op_write.sum")
    if read is not None and written is not None:
        return read + written
    rate = metrics.get("dram__bytes.sum.per_second")
    return None if rate is None or seconds is None else rate * seconds


def _compute_cache_bytes(metrics: Metrics, stage: str, seconds: float | None) -> float | None:
    total, sectors = metrics.get(f"{stage}_bytes.sum"), metrics.get(f"{stage}_sectors.sum")
    if total is not None:
        return total
    if sectors is not None:
        return sectors * SECTOR_BYTES
    rate = metrics.get(f"{stage}_bytes.sum.per_second")
    return None if rate is None or seconds is None else rate * seconds
