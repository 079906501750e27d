"""Matrix products on a GPU: one per dtype, tried once, at sizes that do not take too long.

Operands are random, since products of zeros draw less power and run faster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from perfkit.core.note import Note, make_note
from perfkit.core.units import format_seconds
from perfkit.devices.calibration.kernel_timing import (
    FAILURES,
    CalibrationKernel,
    Call,
    Timer,
    TimingWindow,
    format_reason,
)
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.devices.ceilings.ceiling import CeilingLevel
from perfkit.devices.machine.fp32_precision import set_matmul_precision

PROBE_SIZE = 1024
CANARY_SIZE = 4096
MIN_SIZE = 512
STEP = 256  # sizes are its multiples: `_scaled_mm` wants 16, and tiles of the fast kernels are 128 or 256 wide
OPERANDS_BYTES = 3 * 8  # per element of three matrices of the widest dtype
MEMORY_SHARE = 0.25


@dataclass(frozen=True)
class DtypeProduct:
    """A square product of one dtype, and the unit it runs on. `why_not` says why it is not even tried."""

    dtype: str
    level: CeilingLevel
    make: Callable[[int], Call]
    why_not: str = ""


class ProductLimits(NamedTuple):
    """Limits of one matmul: seconds per window, bytes of memory."""

    window_s: float
    free_bytes: int


class ProductKernels(NamedTuple):
    """The matmuls to measure, a canary (the first that works; None if none does), and notes on the others."""

    kernels: list[CalibrationKernel]
    canary: CalibrationKernel | None
    notes: list[Note]


def list_products(capability: tuple[int, int], *, rocm: bool) -> list[DtypeProduct]:
    """A matmul per dtype, with the unit it runs on.

    NVIDIA GPUs run fp32 matmuls on the vector units unless TF32 is allowed, and fp64 ones on matrix units
    only in the data-center parts (8.0, 9.0, 10.0). AMD Instinct GPUs have matrix units for both.
    """
    fp64_matrix = rocm or capability in ((8, 0), (9, 0), (10, 0))
    no_bf16 = "" if rocm or capability >= (8, 0) else "no bf16 Tensor Cores before compute capability 8.0"
    no_tf32 = "no TF32 mode in torch for ROCm" if rocm else no_bf16.replace("bf16", "TF32")
    no_int8 = "left out on ROCm" if rocm else ("" if capability >= (7, 5) else "no int8 Tensor Cores before 7.5")
    no_fp8 = "left out on ROCm" if rocm else ("" if capability >= (8, 9) else "no fp8 Tensor Cores before 8.9")
    return [
        DtypeProduct("fp16", CeilingLevel.MATRIX, lambda size: _make_mm(size, torch.float16)),
        DtypeProduct("bf16", CeilingLevel.MATRIX, lambda size: _make_mm(size, torch.bfloat16), no_bf16),
        DtypeProduct("tf32", CeilingLevel.MATRIX, lambda size: _make_mm(size, torch.float32, "tf32"), no_tf32),
        DtypeProduct(
            "fp32", CeilingLevel.MATRIX if rocm else CeilingLevel.VECTOR, lambda size: _make_mm(size, torch.float32)
        ),
        DtypeProduct(
            "fp64",
            CeilingLevel.MATRIX if fp64_matrix else CeilingLevel.VECTOR,
            lambda size: _make_mm(size, torch.float64),
        ),
        DtypeProduct("int8", CeilingLevel.MATRIX, _make_int8_mm, no_int8),
        DtypeProduct("fp8", CeilingLevel.MATRIX, _make_fp8_mm, no_fp8),
    ]


def choose_kernels(
    candidates: Sequence[DtypeProduct],
    entry: CatalogEntry | None,
    sizes: Sequence[int],
    limits: ProductLimits,
    timer: Timer,
) -> ProductKernels:
    """The products that work here, each at those of the `sizes` that keep to the limits.

    How long a size takes follows from the datasheet's peak in `entry` or, where it has none, from a small product.
    """
    chosen: list[CalibrationKernel] = []
    notes: list[Note] = []
    canary: CalibrationKernel | None = None
    for product in candidates:
        outcome = product.why_not or probe_product(product, timer)
        if isinstance(outcome, str):
            text = f"{product.dtype} matmuls not measured: {outcome}"
            notes.append(make_note("ceilings.not_measured", text, dtype=product.dtype))
            continue
        rate = _get_datasheet_peak(product, entry) or outcome
        allowed = filter_sizes(sizes, rate, limits)
        if allowed != list(sizes):
            text = (
                f"{product.dtype} matmuls measured up to n={allowed[-1]}: larger ones take more than "
                f"{format_seconds(limits.window_s)} or too much memory"
            )
            notes.append(make_note("ceilings.smaller_sizes", text, dtype=product.dtype, size=allowed[-1]))
        chosen += [_build_kernel(product, size) for size in allowed]
        canary = canary or _build_kernel(product, filter_sizes((CANARY_SIZE,), rate, limits)[0])
    return ProductKernels(chosen, canary, notes)


def probe_product(product: DtypeProduct, timer: Timer) -> float | str:
    """Measure the FLOP/s of a small matmul, after one that loads the kernel; or return the reason for a failure."""
    try:
        call = product.make(PROBE_SIZE)
        timer(call)
        return 2.0 * PROBE_SIZE**3 / timer(call)
    except FAILURES as error:
        return format_reason(error)


def filter_sizes(sizes: Sequence[int], rate: float, limits: ProductLimits) -> list[int]:
    """The sizes within the limits at `rate` FLOP/s; if there are none, the largest possible one."""
    longest = (limits.window_s * rate / 2) ** (1 / 3)
    largest = (limits.free_bytes * MEMORY_SHARE / OPERANDS_BYTES) ** 0.5
    bound = min(longest, largest)
    return [size for size in sizes if size <= bound] or [max(int(bound) // STEP * STEP, MIN_SIZE)]


def _build_kernel(product: DtypeProduct, size: int) -> CalibrationKernel:
    return CalibrationKernel(
        level=product.level,
        dtype=product.dtype,
        threads=None,
        label=f"{product.dtype} matmul n={size}",
        unit="FLOP/s",
        prepare=lambda: TimingWindow(product.make(size), 2.0 * size**3),
    )


def _get_datasheet_peak(product: DtypeProduct, entry: CatalogEntry | None) -> float | None:
    """The datasheet's FLOP/s for a product; None where it has none."""
    if entry is None:
        return None
    rates = entry.matrix_tflops if product.level == CeilingLevel.MATRIX else entry.vector_tflops
    return rates[product.dtype][0] * 1e12 if product.dtype in rates else None


def _make_mm(size: int, dtype: torch.dtype, precision: str = "ieee") -> Call:
    set_matmul_precision(precision)
    left, right = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def _make_int8_mm(size: int) -> Call:
    left, right = (torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(left, right.t())


def _make_fp8_mm(size: int) -> Call:
    """As torchao and torchtitan multiply: one scale a tensor, and sums kept in the tensor cores' own precision.

    Without `use_fast_accum` Hopper adds in fp32 every few steps and is slower than what real programs reach; other
    GPUs may ignore it. The second operand must be column-major up to 9.0 (aten/src/ATen/native/cuda/ScaledBlas.cpp).
    """
    left, right = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(
        left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
    )
