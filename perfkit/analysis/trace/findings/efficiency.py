"""Rules about GEMMs and attention on the right unit whose kernels reach little of its rate."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from perfkit.analysis.findings.change import raise_to_roof
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.matmul_rows import AttentionRow, GemmRow, ProductRow
from perfkit.analysis.trace.findings.matmuls import get_unaligned_sizes
from perfkit.analysis.trace.findings.trace_thresholds import (
    CLOSE_TO_ROOF,
    COMMON,
    FUSED_ATTENTION,
    HIGHER_PEAK,
    QUANTIZED,
)
from perfkit.analysis.trace.findings.trace_view import BEYOND_ROOF, TraceView, sum_above_roof_s, sum_seconds
from perfkit.analysis.trace.roofline.attention_call import EFFICIENT, FLASH_2, TRITON
from perfkit.analysis.trace.roofline.roofline import COMPUTE, MEMORY
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent
from perfkit.devices.accelerator import ROCM
from perfkit.devices.ceilings.ceiling import CeilingLevel

Row = TypeVar("Row", bound=ProductRow)

_16_BITS = ("bf16", "fp16")
_NAMED = 3  # rows
_WEIGHTY = 0.2  # of the time above the roof: smaller causes get no advice

# Advice to try other GEMM kernels, by device.
_OTHER_KERNELS = {
    "cuda": 'Let torch.compile(mode="max-autotune") try other kernels.',
    "rocm": "Set PYTORCH_TUNABLEOP_ENABLED=1 to try all kernels of hipBLASLt and rocBLAS.",
    "xpu": 'Let torch.compile(mode="max-autotune") try other kernels.',
}
_MORE_TILES = (
    "Make more tiles than the device has multiprocessors: join products of one input (query, key and value), batch "
    "more rows, or split K."
)
_WHOLE_WAVES = "Choose a batch size or sequence length whose tiles fill whole waves."
_WHOLE_TILES = "Fill whole tiles: pack more rows into one product, or pad where that is cheaper."

# FLOPs of a call that keep a whole GPU busy for a tenth of a millisecond or more.
_LARGE_FLOPS = 1e11
_CLOCKS = {
    "cuda": "Check for low clocks (power, heat) with nvidia-smi -q -d PERFORMANCE.",
    "rocm": "Check for low clocks (power, heat) with amd-smi monitor.",
}

# GPUs with matrix instructions that FlashAttention-2 does not use: Hopper and Blackwell, by the names of their cards.
_SINCE_HOPPER = re.compile(r"\bG?[HB]\d{2,3}")
_WIDEST_FLASH = 256  # head that FlashAttention-2 takes
_MORE_BLOCKS = (
    "Give attention more parallel work: more sequences or heads, or, for few queries, a kernel that splits the keys "
    "(flash_attn_with_kvcache, FlashInfer)."
)
_NO_TENSOR = (
    "Replace the mask tensor, which FlashAttention does not take: pass is_causal=True where it is causal, else use "
    "torch.nn.attention.flex_attention with a block mask."
)
_FLASH = (
    "Use FlashAttention, which takes these inputs from Ampere on: "
    "torch.nn.attention.sdpa_kernel(SDPBackend.FLASH_ATTENTION)."
)
_LATER = (
    "Use cuDNN attention with torch.nn.attention.sdpa_kernel(SDPBackend.CUDNN_ATTENTION) or a newer FlashAttention: "
    "version 2 targets Ampere."
)
_CK = 'Try Composable Kernel instead of AOTriton: torch.backends.cuda.preferred_rocm_fa_library("ck"), or AITER.'
_OTHER_BACKENDS = "Compare the backends of F.scaled_dot_product_attention with torch.nn.attention.sdpa_kernel."


class Cause(NamedTuple):
    """The cause of a row's low efficiency in a few words (or none), and the advice."""

    why: str
    do: str


def find_slow_gemms(view: TraceView) -> Iterator[RuleResult]:
    """Compute-bound products whose kernels reach little of the unit's rate.

    `products.find_unaligned_dims` reports those whose sizes do not suit the unit.
    """
    bound = [row for row in view.trace.gemms if row.bound == COMPUTE and not get_unaligned_sizes(row)]
    rows = [row for row in bound if _is_below_share(row, CLOSE_TO_ROOF)]
    took = sum_seconds(rows)
    if view.trace.device not in _OTHER_KERNELS or view.get_share(took) < COMMON:
        return
    reached = _get_efficiency(rows)
    causes = [(row, _find_gemm_cause(view, row)) for row in rows]
    yield view.build_gain(
        "gemm.low_efficiency",
        f"GEMMs reach {format_percent(reached, 0)} of their roof",
        f"GEMMs below {format_percent(CLOSE_TO_ROOF, 0)} of roof take {view.show_work_time(took)}: "
        f"{_format_largest(causes, _format_gemm)}",
        " ".join([*_choose_advice(causes), _OTHER_KERNELS[view.trace.device], *_suggest_fp8(view, rows)]),
        sum_above_roof_s(rows),
        basis=BEYOND_ROOF,
        rows=rows,
        change=raise_to_roof(rows),
        figures={"time_s": took, "efficiency": reached},
    )


def find_slow_attention(view: TraceView) -> Iterator[RuleResult]:
    """Attention whose kernels are far from both roofs, where better ones may exist."""
    bound = [row for row in view.trace.attentions if row.bound in (COMPUTE, MEMORY)]
    rows = [row for row in bound if _is_below_share(row, FUSED_ATTENTION)]
    took = sum_seconds(rows)
    if view.trace.device not in _OTHER_KERNELS or view.get_share(took) < COMMON:
        return
    reached = _get_efficiency(rows)
    causes = [(row, _find_attention_cause(view, row)) for row in rows]
    yield view.build_gain(
        "attention.low_efficiency",
        f"Fused attention reaches {format_percent(reached, 0)} of its roof",
        f"calls below {format_percent(FUSED_ATTENTION, 0)} of roof take {view.show_work_time(took)}: "
        f"{_format_largest(causes, _format_attention)}",
        " ".join(_choose_advice(causes)) or _OTHER_BACKENDS,
        sum_above_roof_s(rows),
        basis=BEYOND_ROOF,
        rows=rows,
        change=raise_to_roof(rows),
        figures={"time_s": took, "efficiency": reached},
    )


def _find_gemm_cause(view: TraceView, row: GemmRow) -> Cause | None:
    if _is_small_grid(row):
        return Cause(_format_blocks(view, row), _MORE_TILES)
    if row.waves is not None and row.wave_loss is not None and row.wave_loss >= QUANTIZED:
        return Cause(f"{format_percent(row.wave_loss, 0)} lost in the last of {row.waves:.1f} waves", _WHOLE_WAVES)
    if row.tile_loss is not None and row.tile_loss >= QUANTIZED:
        return Cause(f"{format_percent(row.tile_loss, 0)} lost at the edges of {row.tile} tiles", _WHOLE_TILES)
    if row.flops is not None and row.flops >= _LARGE_FLOPS * row.calls and view.trace.device in _CLOCKS:
        return Cause("", _CLOCKS[view.trace.device])
    return None


def _find_attention_cause(view: TraceView, row: AttentionRow) -> Cause | None:
    if _is_small_grid(row):
        return Cause(_format_blocks(view, row), _MORE_BLOCKS)
    if row.backend == EFFICIENT and row.dtype in _16_BITS and row.width <= _WIDEST_FLASH:
        return Cause("with a mask", _NO_TENSOR) if row.has_mask_tensor else Cause("", _FLASH)
    if row.backend == FLASH_2 and _SINCE_HOPPER.search(view.trace.device_name):
        return Cause("", _LATER)
    if row.backend == TRITON and view.accelerator is ROCM:
        return Cause("", _CK)
    return None


def _is_small_grid(row: ProductRow) -> bool:
    """True if a grid leaves multiprocessors idle all the time."""
    return row.waves is not None and row.waves <= 1 - QUANTIZED


def _format_blocks(view: TraceView, row: ProductRow) -> str:
    return f"{row.blocks} blocks for {row.units} {'compute units' if view.accelerator is ROCM else 'SMs'}"


def _is_below_share(row: ProductRow, share: float) -> bool:
    return row.efficiency is not None and row.efficiency < share and not row.above_roof


def _get_efficiency(rows: Sequence[ProductRow]) -> float:
    return sum(row.attainable_s or 0.0 for row in rows) / sum_seconds(rows)


def _get_s_above_roof(row: ProductRow) -> float:
    return 0.0 if row.attainable_s is None else row.seconds - row.attainable_s


def _choose_advice(causes: Sequence[tuple[Row, Cause | None]]) -> list[str]:
    """The advice on the two causes with most time above the roof, if they cover enough of it."""
    beyond: dict[str, float] = {}
    for row, cause in causes:
        if cause is not None:
            beyond[cause.do] = beyond.get(cause.do, 0.0) + _get_s_above_roof(row)
    weighty = _WEIGHTY * sum(_get_s_above_roof(row) for row, _ in causes)
    return sorted((do for do in beyond if beyond[do] >= weighty), key=lambda do: -beyond[do])[:2]


def _format_largest(causes: Sequence[tuple[Row, Cause | None]], show: Callable[[Row], str]) -> str:
    """The rows with most time above their roofs, and why they are slow where that is known."""
    calls = [
        f"{show(row)}: {format_percent(row.efficiency or 0.0, 0)}{f' ({cause.why})' if cause and cause.why else ''}"
        for row, cause in sorted(causes, key=lambda caused: -_get_s_above_roof(caused[0]))
    ]
    return list_first(calls, _NAMED)


def _format_gemm(row: GemmRow) -> str:
    batch = f"{row.batch} of " if row.batch > 1 else ""
    return f"{row.name.rpartition('::')[2]} {batch}{row.m} x {row.n} x {row.k}"


def _format_attention(row: AttentionRow) -> str:
    backward = " backward" if row.backward else ""
    return f"{row.backend or row.name}{backward}, {row.queries} x {row.keys}, head dim {row.width}"


def _suggest_fp8(view: TraceView, rows: Sequence[GemmRow]) -> Iterator[str]:
    """Suggest fp8 where most of the time is in 16 bits and the device has a higher 8-bit peak."""
    reduced = [row for row in rows if row.dtype in _16_BITS]
    now = view.get_peak(CeilingLevel.MATRIX, reduced[0].dtype) if reduced else None
    fp8 = view.get_peak(CeilingLevel.MATRIX, "fp8")
    if now and fp8 and fp8 >= HIGHER_PEAK * now and sum_seconds(reduced) > sum_seconds(rows) / 2:
        yield f"Try fp8 (torchao.float8), {fp8 / now:.1f}x the peak, where its precision suffices."
