"""Rules about GEMMs, attention and convolutions: the right unit, dims, layout and algorithm."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import Change, Takes, raise_to_roof, remove_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.matmul_rows import GemmRow
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.remedies import CHANNELS_LAST, FUSED_BATCH_NORM
from perfkit.analysis.trace.findings.trace_thresholds import CLOSE_TO_ROOF, COMMON, HIGHER_PEAK, NOTABLE
from perfkit.analysis.trace.findings.trace_view import (
    BEYOND_ROOF,
    TraceView,
    is_below_roof_share,
    list_kernels,
    parse_shapes,
    sum_above_roof_s,
    sum_seconds,
)
from perfkit.analysis.trace.roofline.matmul_operands import list_contiguous_sizes
from perfkit.analysis.trace.roofline.roofline import LATENCY
from perfkit.core.units import format_flop_rate, format_percent
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.accelerator import is_cpu, is_cuda
from perfkit.devices.ceilings.ceiling import CeilingLevel

_PRODUCTS = (OpClass.MATMUL, OpClass.CONVOLUTION, OpClass.ATTENTION)

_STAY_IN_FP32 = (
    "Find out why these get fp32 operands while others run in 16 bits: called outside torch.autocast, or fed by an op "
    "that it keeps in fp32."
)

# For GEMMs and for convolutions. The older switches: torch.compile still reads them (2.13), and fails once
# the newer `fp32_precision` was set to something else.
_ALLOW_TF32 = {
    False: 'call torch.set_float32_matmul_precision("high")',
    True: "set torch.backends.cudnn.allow_tf32 = True",
}

_WITHOUT_TENSOR_CORES = "TF32 is on, but these sizes and layouts got kernels without tensor cores"

# The op that F.scaled_dot_product_attention calls where no fused kernel takes the inputs.
_MATH_SOFTMAX = "aten::_safe_softmax"
_FUSED_ATTENTION = (
    "Call F.scaled_dot_product_attention (transformers: attn_implementation='sdpa') instead of bmm, softmax, bmm."
)
_FELL_BACK = (
    "Find out why no fused kernel takes the inputs of F.scaled_dot_product_attention: on a CPU dropout_p > 0; "
    "elsewhere torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION) around the call warns of the dtype, mask "
    "or head size."
)

_BACKWARD = "backward"

# Tensor cores work on 16 bytes of a row at a time: NVIDIA, "Matrix Multiplication Background User's Guide", table 1.
_MULTIPLES = {"fp16": 8, "bf16": 8, "fp8": 16, "fp8_e4m3": 16, "fp8_e5m2": 16, "int8": 16}


def find_fp32_products(view: TraceView) -> Iterator[RuleResult]:
    """Products of fp32 operands, which tensor cores do not take unless TF32 is allowed."""
    # A latency-bound call takes as long in any dtype.
    rows = [row for row in view.select_ops(*_PRODUCTS) if row.dtype == "fp32" and row.bound != LATENCY]
    took = sum_seconds(rows)
    if view.get_share(took) < NOTABLE:
        return
    # A CPU multiplies fp32 at its matrix rate, a GPU on its CUDA cores.
    units = (
        (CeilingLevel.MATRIX, CeilingLevel.VECTOR)
        if is_cpu(view.trace.device)
        else (CeilingLevel.VECTOR, CeilingLevel.MATRIX)
    )
    now = next((peak for unit in units if (peak := view.get_peak(unit, "fp32")) is not None), None)
    peaks = {
        dtype: peak
        for dtype in ("tf32", "bf16", "fp16")
        if (peak := view.get_peak(CeilingLevel.MATRIX, dtype)) is not None
    }
    evidence = f"fp32 matrix ops take {view.show_work_time(took)}: {list_kernels(rows)}"
    if now is None or not peaks:
        if not is_cpu(view.trace.device):
            yield view.build_gain(
                "gemm.fp32",
                "GEMMs run in fp32",
                f"{evidence}; peak rates unknown, so the gain is too",
                _advise_dtype(view, rows, {"tf32": 0.0, "bf16": 0.0} if is_cuda(view.trace.device) else {"bf16": 0.0}),
                None,
                rows=rows,
                figures={"time_s": took},
            )
        return
    # On GeForce cards TF32 is as fast as fp32 on the CUDA cores: it is not advised there.
    higher = {dtype: peak for dtype, peak in peaks.items() if peak >= HIGHER_PEAK * now}
    if not higher:
        return
    fastest = max(higher, key=higher.__getitem__)
    best = higher[fastest]
    yield view.build_gain(
        "gemm.fp32",
        f"GEMMs run in fp32: {fastest} peak is {best / now:.1f}x",
        f"{evidence}; peaks: fp32 {format_flop_rate(now)}, "
        + ", ".join(f"{dtype} {format_flop_rate(peak)}" for dtype, peak in peaks.items()),
        _STAY_IN_FP32 if _has_reduced_products(view) else _advise_dtype(view, rows, higher),
        sum(_get_saved_s(row, now / best, view.bandwidth) for row in rows),
        basis="assumes the same share of the higher peak, capped by memory bandwidth",
        rows=rows,
        change=Change(
            tuple(Takes(row, 1 - _get_saved_s(row, now / best, view.bandwidth) / row.seconds) for row in rows)
        ),
        figures={"time_s": took, "fp32_flops_per_s": now}
        | {f"{dtype}_flops_per_s": peak for dtype, peak in peaks.items()},
    )


def _has_reduced_products(view: TraceView) -> bool:
    return any(row.dtype in ("bf16", "fp16") for row in view.select_ops(*_PRODUCTS))


def _get_saved_s(row: OpRow, ratio: float, bandwidth: float | None) -> float:
    by_memory = 0.0 if row.bytes is None or bandwidth is None else row.bytes / bandwidth
    return max(0.0, row.seconds - max(row.seconds * ratio, by_memory))


def _advise_dtype(view: TraceView, rows: list[OpRow], peaks: dict[str, float]) -> str:
    dtype = "bfloat16" if "bf16" in peaks else "float16"
    scaler = " and torch.amp.GradScaler" if dtype == "float16" and view.trains is not False else ""
    autocast = f'torch.autocast("{view.accelerator.type}", dtype=torch.{dtype}){scaler}'
    if "tf32" not in peaks:
        return f"Use {autocast}."
    kinds = set(map(_is_convolution, rows))
    if all(
        any(row.dtype == "tf32" and _is_convolution(row) == kind for row in view.select_ops(*_PRODUCTS))
        for kind in kinds
    ):
        return (
            f"Make sizes multiples of 4, batch small products with torch.bmm, or use {autocast}: "
            f"{_WITHOUT_TENSOR_CORES}."
        )
    how = " and ".join(call for convolution, call in _ALLOW_TF32.items() if convolution in kinds)
    return f"{how[0].upper()}{how[1:]} for TF32, or use {autocast}."


def _is_convolution(row: OpRow) -> bool:
    return classify_op(row.name) == OpClass.CONVOLUTION


def get_unaligned_sizes(row: OpRow | GemmRow) -> set[int]:
    """The sizes of a low-precision GEMM that are not multiples of a tensor core load."""
    multiple = _MULTIPLES.get(row.dtype)
    if multiple is None:
        return set()
    sizes = list_contiguous_sizes(row.name, [shape.dims for shape in parse_shapes(row)], row.layout)
    return {size for size in sizes if size > 1 and size % multiple}


def find_unaligned_dims(view: TraceView) -> Iterator[RuleResult]:
    """Low-precision GEMMs whose dims are not multiples of a tensor core load."""
    rows = []
    odd: dict[int, None] = {}
    for row in view.select_ops(OpClass.MATMUL):
        if is_below_roof_share(row, CLOSE_TO_ROOF) and (dims := get_unaligned_sizes(row)):
            rows.append(row)
            odd.update(dict.fromkeys(sorted(dims)))
    took = sum_seconds(rows)
    if is_cpu(view.trace.device) or view.get_share(took) < NOTABLE:  # a CPU has no tensor cores
        return
    multiple = max(_MULTIPLES[row.dtype] for row in rows)
    padded = ", ".join(f"{size} to {-(-size // multiple) * multiple}" for size in list(odd)[:4])
    yield view.build_gain(
        "gemm.unaligned",
        f"GEMM dims are not multiples of {multiple}",
        f"these GEMMs take {view.show_work_time(took)}: {list_kernels(rows)} with dims "
        f"{', '.join(map(str, list(odd)[:8]))}",
        f"Pad these dims (vocabulary, head or hidden size): {padded}; tensor cores read 16 bytes at once.",
        sum_above_roof_s(rows),
        basis=BEYOND_ROOF,
        rows=rows,
        change=raise_to_roof(rows),
        figures={"time_s": took, "multiple": multiple},
    )


def find_unfused_attention(view: TraceView) -> Iterator[RuleResult]:
    """Softmax between two products: the score matrix is written and read by each op."""
    # A backward product has the size of the scores wherever a weighted sum follows a softmax, as in graph attention.
    products = set().union(*(_list_results(row) for row in view.select_ops(OpClass.MATMUL) if row.phase != _BACKWARD))
    scores = {
        (first.numel, first.dims[-2:])
        for row in view.select_ops(OpClass.SOFTMAX)
        for first in parse_shapes(row)[:1]
        if len(first.dims) >= 3 and (first.numel, first.dims[-2:]) in products
    }
    rows = [
        row
        for row in view.select_ops()
        if classify_op(row.name) not in _PRODUCTS and any((s.numel, s.dims[-2:]) in scores for s in parse_shapes(row))
    ]
    took = sum_seconds(rows)
    if not scores or view.get_share(took) < NOTABLE:
        return
    sizes = ", ".join(f"{queries} x {keys}" for queries, keys in sorted({dims for _, dims in scores})[:3])
    yield view.build_gain(
        "attention.unfused",
        "Attention is not fused",
        f"softmax and other ops on score matrices of {sizes} take {view.show_work_time(took)}: {list_kernels(rows)}",
        _FELL_BACK if any(row.name == _MATH_SOFTMAX for row in rows) else _FUSED_ATTENTION,
        took,
        basis="assumes that a fused kernel keeps only the matmuls",
        rows=rows,
        change=remove_rows(rows, joins=True),
        figures={"time_s": took},
    )


def _list_results(row: OpRow) -> set[tuple[int, tuple[int, ...]]]:
    """Number of values and last two dims of the result of a batched product; empty for others."""
    operands = [shape for shape in parse_shapes(row) if len(shape.dims) >= 3][-2:]
    if len(operands) < 2:
        return set()
    (*_, length, depth), width = operands[0].dims, operands[1].dims[-1]
    return {(operands[0].numel // depth * width, (length, width))} if depth else set()


def find_convolution_transposes(view: TraceView) -> Iterator[RuleResult]:
    """Kernels that only turn tensors between channels-first and channels-last."""
    rows = view.select_kernels(r"nchw_?to_?nhwc|nhwc_?to_?nchw|batched_transpose|transpose_nchw|transpose_nhwc")
    took = sum_seconds(rows)
    if view.get_share(took) >= NOTABLE:
        yield view.build_gain(
            "convolution.transposes",
            "Channels-first convolutions transpose their tensors",
            f"transpose kernels take {view.show_work_time(took)}: {list_kernels(rows, 3)}",
            view.advise(CHANNELS_LAST),
            took,
            rows=rows,
            change=remove_rows(rows),
            figures={"time_s": took},
        )


def find_batch_norm_layout(view: TraceView) -> Iterator[RuleResult]:
    """Batch norm on channels-first tensors, whose kernels reach less of the bandwidth.

    Kernels of a GPU say their layout by their names; ops of a CPU do not.
    """
    if is_cpu(view.trace.device):
        return
    rows = [
        row
        for row in view.select_kernels(r"batch_?norm|bn_fw|bn_bw")
        if not any(word in row.name.lower() for word in ("nhwc", "channels_last")) and not _is_instance_norm(row)
    ]
    above_s = sum_above_roof_s(rows)
    if above_s is not None and view.select_ops(OpClass.CONVOLUTION) and view.get_share(above_s) >= NOTABLE:
        yield view.build_gain(
            "batch_norm.layout",
            "Batch norm runs on channels-first tensors",
            f"batch norm takes {view.show_work_time(sum_seconds(rows))}: {list_kernels(rows, 3)}",
            view.advise(FUSED_BATCH_NORM),
            above_s,
            basis=BEYOND_ROOF,
            rows=rows,
            change=raise_to_roof(rows),
            figures={"time_s": sum_seconds(rows)},
        )


def _is_instance_norm(row: OpRow) -> bool:
    """True if it normalizes each image separately: `aten::instance_norm` reshapes a batch into one image of N * C
    channels."""
    return any(shape.dims[0] == 1 for shape in parse_shapes(row)[:1] if shape.dims)


def find_slow_convolutions(view: TraceView) -> Iterator[RuleResult]:
    """Convolutions far from their roof, for which cuDNN may have a faster algorithm."""
    rows = [row for row in view.select_ops(OpClass.CONVOLUTION) if row.attainable_s is not None]
    took, attainable = sum_seconds(rows), sum(row.attainable_s or 0.0 for row in rows)
    if is_cpu(view.trace.device) or view.get_share(took) < COMMON or attainable > CLOSE_TO_ROOF * took:
        return
    yield view.build_gain(
        "convolution.low_efficiency",
        f"Convolutions reach {format_percent(attainable / took, 0)} of their roof",
        f"convolutions take {view.show_work_time(took)}",
        "Set torch.backends.cudnn.benchmark = True where input sizes stay the same, and keep tensors in channels-last."
        if is_cuda(view.trace.device)
        else view.advise(CHANNELS_LAST),
        sum_above_roof_s(rows),
        basis=BEYOND_ROOF,
        rows=rows,
        change=raise_to_roof(rows),
        figures={"time_s": took, "efficiency": attainable / took},
    )
