"""Rules about GEMMs, attention and convolutions."""

from perfkit.analysis.findings.rule import GAIN, About, FindingKind, Rule
from perfkit.analysis.trace.findings import efficiency, layouts, matmuls
from perfkit.analysis.trace.findings.trace_thresholds import (
    CLOSE_TO_ROOF,
    COMMON,
    FUSED_ATTENTION,
    HIGHER_PEAK,
    NOTABLE,
)
from perfkit.analysis.trace.findings.trace_view import TraceView
from perfkit.core.units import format_percent

_LEAST, _COMMON = f"at least {format_percent(NOTABLE, 0)}", f"at least {format_percent(COMMON, 0)}"
_ROOF = format_percent(CLOSE_TO_ROOF, 0)
_ABOVE_ROOF = "The time of these calls above their roofs."

FP32 = FindingKind(
    "gemm.fp32",
    GAIN,
    f"GEMM, convolution and attention ops in fp32 take {_LEAST} of the step, and the device's peak in TF32, bf16 or "
    f"fp16 is at least {HIGHER_PEAK} times as high or unknown.",
    'Use `torch.autocast`, or allow TF32 with `torch.set_float32_matmul_precision("high")` (for convolutions '
    "`torch.backends.cudnn.allow_tf32 = True`).",
    "The time saved at the same share of the higher peak, limited by memory bandwidth; unknown where peaks are "
    "unknown.",
    techniques=("amp", "bf16", "tf32"),
)
UNALIGNED = FindingKind(
    "gemm.unaligned",
    GAIN,
    f"On a GPU, GEMMs in 16 (8) bits below {_ROOF} of their roof, with contiguous dims that are not multiples of 8 "
    f"(16), take {_LEAST} of the step.",
    "Pad the vocabulary, the head size or the hidden size to that multiple.",
    _ABOVE_ROOF,
)
LOW_EFFICIENCY = FindingKind(
    "gemm.low_efficiency",
    GAIN,
    f"On a GPU, compute-bound GEMMs below {_ROOF} of the peak take {_COMMON} of the step (those of `gemm.unaligned` "
    "excluded).",
    "Fix the cause of each loss ([by shape](analyze.md#gemms-and-attention-by-shape)): make more tiles, fill whole "
    "waves "
    'and tiles, check the clock, and try other kernels with `torch.compile(mode="max-autotune")` or, on AMD, '
    "`PYTORCH_TUNABLEOP_ENABLED=1`.",
    _ABOVE_ROOF,
    techniques=("compile:mode=max-autotune",),
)
UNFUSED_ATTENTION = FindingKind(
    "attention.unfused",
    GAIN,
    f"A softmax takes the size of a batched GEMM's result, and ops on such tensors take {_LEAST} of the step.",
    "Call `F.scaled_dot_product_attention`.",
    "The time of all ops on score matrices except the GEMMs.",
    techniques=("flash",),
)
SLOW_ATTENTION = FindingKind(
    "attention.low_efficiency",
    GAIN,
    f"On a GPU, fused attention below {format_percent(FUSED_ATTENTION, 0)} of the limiting roof takes {_COMMON} of "
    "the step.",
    "Choose a better backend: `SDPBackend.FLASH_ATTENTION` without a mask tensor, cuDNN or a newer FlashAttention from "
    "Hopper on, Composable Kernel on AMD, and more blocks than SMs.",
    _ABOVE_ROOF,
    techniques=("flash",),
)
TRANSPOSES = FindingKind(
    "convolution.transposes",
    GAIN,
    "Transposes between channels-first and channels-last (`nchwToNhwc`, `batched_transpose`) take "
    f"{_LEAST} of the step. On a CPU, copies of operands within convolutions take {_COMMON}.",
    "Keep the model and its input in channels-last with `.to(memory_format=torch.channels_last)`.",
    "The time of these kernels or copies.",
    techniques=("channels_last",),
)
BATCH_NORM = FindingKind(
    "batch_norm.layout",
    GAIN,
    "Batch-norm kernels that are not channels-last run next to convolutions (`InstanceNorm` excluded), and spend "
    f"{_LEAST} of the step above their roofs.",
    "Keep the model and its input in channels-last, or fuse the normalization with `torch.compile`.",
    _ABOVE_ROOF,
    techniques=("channels_last", "compile"),
)
SLOW_CONVOLUTIONS = FindingKind(
    "convolution.low_efficiency",
    GAIN,
    f"On a GPU, convolutions take {_COMMON} of the step and reach less than {_ROOF} of their roof.",
    "Set `torch.backends.cudnn.benchmark = True` where input sizes stay the same, and train in channels-last.",
    _ABOVE_ROOF,
    techniques=("channels_last",),
)

RULES = (
    Rule(matmuls.find_fp32_products, TraceView, About.STEP, (FP32,)),
    Rule(matmuls.find_unaligned_dims, TraceView, About.STEP, (UNALIGNED,)),
    Rule(efficiency.find_slow_gemms, TraceView, About.STEP, (LOW_EFFICIENCY,)),
    Rule(matmuls.find_unfused_attention, TraceView, About.STEP, (UNFUSED_ATTENTION,)),
    Rule(efficiency.find_slow_attention, TraceView, About.STEP, (SLOW_ATTENTION,)),
    Rule(matmuls.find_convolution_transposes, TraceView, About.STEP, (TRANSPOSES,)),
    Rule(layouts.find_layout_copies, TraceView, About.STEP, (TRANSPOSES,)),
    Rule(matmuls.find_batch_norm_layout, TraceView, About.STEP, (BATCH_NORM,)),
    Rule(matmuls.find_slow_convolutions, TraceView, About.STEP, (SLOW_CONVOLUTIONS,)),
)
