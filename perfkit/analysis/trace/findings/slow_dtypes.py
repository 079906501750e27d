"""Rules about dtypes that a device computes slowly."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import Change, Takes, scale_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE
from perfkit.analysis.trace.findings.trace_view import (
    TraceView,
    format_call_count,
    list_kernels,
    parse_shapes,
    sum_seconds,
)
from perfkit.cost.calls.op_call import OpClass
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.ceilings.ceiling import CeilingLevel

# An fp64 op moves twice the bytes of fp32, and computes on half as many lanes or fewer.
_FP64_IN_FP32 = 0.5
# Times the least time in fp32: slower than this, fp16 has no fast path on a CPU.
_EMULATED = 2.0


def find_double_precision(view: TraceView) -> Iterator[RuleResult]:
    """Work in fp64."""
    rows = [row for row in view.select_ops() if _is_of_dtype(row, "fp64")]
    took = sum_seconds(rows)
    if view.get_share(took) < NOTABLE:
        return
    yield view.build_gain(
        "dtype.fp64",
        "Ops run in fp64",
        f"fp64 ops take {view.show_work_time(took)} in {format_call_count(rows)}: {list_kernels(rows)}",
        "Keep tensors in fp32: torch.from_numpy(array).float(), and no .double(). NumPy's default is fp64.",
        took,
        basis="fp32 takes half of the time of fp64 or less",
        rows=rows,
        change=scale_rows(rows, _FP64_IN_FP32),
        removable_s=took,
        figures={"time_s": took, "calls": sum(row.calls for row in rows)},
    )


def find_slow_half(view: TraceView) -> Iterator[RuleResult]:
    """Matrix ops in fp16 on a CPU that are slower than fp32 could be."""
    peak = next(
        (
            peak
            for level in (CeilingLevel.MATRIX, CeilingLevel.VECTOR)
            if (peak := view.get_peak(level, "fp32")) is not None
        ),
        None,
    )
    if not is_cpu(view.trace.device) or peak is None:
        return
    rows = [
        row
        for row in view.select_ops(OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION)
        if row.flops and _is_of_dtype(row, "fp16") and row.seconds > _EMULATED * row.flops / peak
    ]
    took = sum_seconds(rows)
    fp32_s = sum(row.flops or 0.0 for row in rows) / peak
    if view.get_share(took - fp32_s) < NOTABLE:
        return
    yield view.build_gain(
        "dtype.slow_half",
        "Matrix ops in fp16 are slow on this CPU",
        f"fp16 matrix ops take {view.show_work_time(took)}: {list_kernels(rows)}",
        "Use bf16 autocast or fp32 on a CPU: torch.autocast('cpu', dtype=torch.bfloat16).",
        took - fp32_s,
        basis="assumes the fp32 peak",
        rows=rows,
        change=Change(tuple(Takes(row, (row.flops or 0.0) / peak / row.seconds) for row in rows)),
        figures={"time_s": took, "fp32_s": fp32_s},
    )


def _is_of_dtype(row: OpRow, dtype: str) -> bool:
    """True if the operands are of that dtype; scalars of another one do not count."""
    tensors = [shape for shape in parse_shapes(row) if shape.numel > 1]
    return row.dtype == dtype or any(shape.dtype == dtype for shape in tensors)
