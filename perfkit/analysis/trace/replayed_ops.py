"""Maps kernels of replayed CUDA graphs to ops.

A graph replays its kernels without calling an op, so that their names are all there is. One table says which kernels
an op launches, one of them for each of its calls.
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from perfkit.cost.kernels.gemm_kernel import is_matrix_kernel


class KernelFamily(NamedTuple):
    """Kernels that stand for a call of one of `ops`. `in_model`: a graph of the model contains all of their kind."""

    ops: tuple[str, ...]
    kernel: re.Pattern[str]
    in_model: bool


def _make_family(ops: str, kernel: str, *, in_model: bool) -> KernelFamily:
    return KernelFamily(tuple(ops.split()), re.compile(kernel), in_model)


_SDPA = "aten::_scaled_dot_product_"
_FLASH, _EFFICIENT, _CUDNN = (f"{_SDPA}{backend}_attention" for backend in ("flash", "efficient", "cudnn"))

# FlashAttention 2 by torch, 3 (CUTLASS) and 4 (CuTe, in Python); xFormers' kernels; cuDNN's; then AMD's (AOTriton,
# aiter, Composable Kernel), which serve both ops. Kernels that put parts of a sequence together are no calls.
FAMILIES = (
    _make_family(_FLASH, r"flash_fwd(_splitkv)?_kernel|FlashAttnFwdSm\d|FlashAttentionForwardSm\d", in_model=True),
    _make_family(_EFFICIENT, r"fmha_cutlassF_", in_model=True),
    _make_family(_CUDNN, r"cudnn_generated\w*sdpa\w*_fprop", in_model=True),
    _make_family(f"{_FLASH} {_EFFICIENT}", r"^_?attn_fwd|fmha_fwd|FmhaFwd(Pagedkv|SplitKV)?Kernel", in_model=True),
    _make_family("c10d::allreduce_ c10d::allreduce_coalesced_", r"(nccl|rccl)\w*AllReduce", in_model=False),
    _make_family(
        "c10d::_allgather_base_ c10d::allgather_ c10d::allgather_coalesced_ c10d::allgather_into_tensor_coalesced_",
        r"(nccl|rccl)\w*AllGather",
        in_model=False,
    ),
    _make_family(
        "c10d::_reduce_scatter_base_ c10d::reduce_scatter_ c10d::reduce_scatter_tensor_coalesced_",
        r"(nccl|rccl)\w*ReduceScatter",
        in_model=False,
    ),
)

# These launch nothing in a graph: the first calls the ops above, the others are the CPU's and other devices'.
_LAUNCH_NOTHING = (
    "aten::scaled_dot_product_attention",
    f"{_SDPA}flash_attention_for_cpu",
    f"{_SDPA}fused_attention_overrideable",
)

_ATTENTION = re.compile(r"attn|attention|fmha|sdpa|flash", re.IGNORECASE)
# Kernels after a forward kernel: part of attention that another kernel counts.
_ATTENTION_REST = re.compile(r"bwd|backward|bprop|cutlassB|combine|dot_do_o|convert_dq", re.IGNORECASE)
_OTHER = re.compile(
    r"at::native::|at_cuda_detail|\bcub::|thrust::|rocprim::|triton_[a-z]{2,3}_fused_|nccl|rccl|splitK|cublasLt::|"
    r"cudnn::|nchwToNhwc|nhwcToNchw|MIOpen|elementwise_kernel|multi_tensor_apply|reduce_kernel|__amd_rocclr|Mem(cpy|set)",
    re.IGNORECASE,
)


class ReplayedCalls(NamedTuple):
    """Calls that kernels stand for: `sure` ones, those that more kernels `may` be, and the names of these."""

    sure: float
    may: float
    unclear: tuple[str, ...]


def count_replayed_calls(kernels: Mapping[str, float], patterns: Iterable[str]) -> ReplayedCalls:
    """Count calls of the ops that `patterns` (globs) name, by the replays of each kernel."""
    wanted = tuple(patterns)
    explained = all(_is_explained(pattern) for pattern in wanted)
    sure = may = 0.0
    unclear = []
    for name, count in kernels.items():
        family = find_family(name)
        among = [] if family is None else [match_any(op, wanted) for op in family.ops]
        if among and all(among):
            sure += count
        elif any(among) or not explained or (family is None and not is_recognized(name)):
            may += count
            unclear.append(name)
    return ReplayedCalls(sure, may, tuple(unclear))


def match_any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def find_family(kernel: str) -> KernelFamily | None:
    return next((family for family in FAMILIES if family.kernel.search(kernel)), None)


def is_recognized(kernel: str) -> bool:
    """True if a kernel without a family is known to be something else; fused attention of an unknown library is not."""
    if _ATTENTION.search(kernel) and not _OTHER.search(kernel):
        return _ATTENTION_REST.search(kernel) is not None
    return is_matrix_kernel(kernel) or _OTHER.search(kernel) is not None


def _is_explained(pattern: str) -> bool:
    """True if the table lists the kernels of the ops of a pattern; ranges (`## ... ##`) launch none."""
    known = (*(op for family in FAMILIES for op in family.ops), *_LAUNCH_NOTHING)
    return pattern.startswith("##") or any(fnmatchcase(op, pattern) for op in known)


def is_part_of_model(patterns: Iterable[str]) -> bool:
    """True if a graph of the model would contain the ops that `patterns` name."""
    wanted = tuple(patterns)
    return any(match_any(op, wanted) for family in FAMILIES if family.in_model for op in family.ops)
