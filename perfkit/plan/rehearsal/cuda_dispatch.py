"""Makes a step on the CPU dispatch as CUDA does, as far as that decides which tensors there are.

Torch's CPU builds have no GPU tensors, not even fake ones, so steps are rehearsed on fake CPU tensors. Inside
`patch_cuda_dispatch`, autocast, dropout, attention and optimizers choose as for CUDA, and torch reports the planned
GPU's architecture.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch
from warnings import catch_warnings, filterwarnings

import torch
from torch.library import Library, fallthrough_kernel
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim import optimizer

from perfkit.cost.torch_dispatch import replace_kernels, tree_map_only
from perfkit.cost.torch_fakes import FakeTensor, FakeTensorMode, fake_kernels
from perfkit.devices.catalog.capability import get_capability
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.plan.rehearsal.libraries.attention_kernels import FLASH_FOR_CPU, running_kernel

# Ops that CUDA's autocast computes in fp32 (AT_FORALL_FP32 in ATen/autocast_mode.h of torch 2.13): their arguments are
# cast. The CPU's autocast leaves most of them in 16 bits.
_CAST_TO_FP32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm rms_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d
    hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits
    dist pdist cdist renorm logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
    _upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
"""

# Those whose result it asks for in fp32, unless the program asks for another dtype (AT_FORALL_FP32_SET_OPT_DTYPE).
_RETURN_FP32 = """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum sum sum.dim_IntList
"""

# Those that the CPU's autocast casts to fp32 and CUDA's leaves to what they are made of, or in 16 bits. So the
# cross-entropy of logits in bf16 keeps a log-softmax in bf16 (seen on an H200, torch 2.11).
_NOT_CAST = """
    cross_entropy_loss avg_pool3d max_pool3d adaptive_avg_pool3d adaptive_max_pool3d reflection_pad1d reflection_pad2d
    replication_pad1d replication_pad2d replication_pad3d
"""

_16_BITS = (torch.bfloat16, torch.float16)

_CUDNN_FIRST = ((9, 0), (10, 0), (10, 3))  # `check_prefer_cudnn_attention`

# AMD's GPUs, by id, with kernels of AOTriton that need not be enabled as experimental (`aotriton::check_gpu`): gfx90a,
# gfx94x and gfx950, but not gfx908 of an MI100 nor gfx11.
_AOTRITON = re.compile(r"mi[23]\d+")

# GPUs whose shared memory is too small for flash's backward of some widths
# (`check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120`).
_SMALL_SHARED_MEMORY = ((8, 6), (8, 7), (8, 9), (12, 0), (12, 1))


def get_dispatch_key(gpu: CatalogEntry) -> tuple[str, tuple[int, int], bool]:
    """All of a GPU that decides which tensors a step makes: its vendor, architecture and kernels of attention."""
    return gpu.vendor, get_capability(gpu), _AOTRITON.match(gpu.id) is not None


@contextmanager
def patch_cuda_dispatch(gpu: CatalogEntry) -> Iterator[None]:
    """Make a step on fake CPU tensors create the tensors of this GPU, without using a local one."""
    vendor, capability, aotriton = get_dispatch_key(gpu)
    hip = "7.0" if vendor == "AMD" else None  # whichever version
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.cuda, "is_available", lambda: False))
        stack.enter_context(patch.object(torch.cuda, "get_device_capability", lambda _device=None: capability))
        stack.enter_context(patch.object(torch.version, "hip", hip))
        library = stack.enter_context(replace_kernels("aten"))
        for name in _CAST_TO_FP32.split():
            _register_kernel(library, name, "AutocastCPU", _cast_to_fp32)
        for name in _RETURN_FP32.split():
            _register_kernel(library, name, "AutocastCPU", _return_fp32)
        with catch_warnings():
            filterwarnings("ignore", "Warning only once for all operators")  # that they override another kernel
            for name in _NOT_CAST.split():
                library.impl(name, fallthrough_kernel, "AutocastCPU")
        library.impl("dropout", _run_dropout, "AutogradCPU")
        library.impl("scaled_dot_product_attention", partial(_run_attention, aotriton), "AutogradCPU")
        stack.enter_context(patch.dict(fake_kernels, {FLASH_FOR_CPU: _infer_attention}))
        FakeTensorMode.cache_clear()  # which does not know that an output depends on the kernel
        kinds = [*optimizer._foreach_supported_types, FakeTensor]
        stack.enter_context(patch.object(optimizer, "_foreach_supported_types", kinds))
        stack.enter_context(patch.object(optimizer, "_get_foreach_kernels_supported_devices", lambda: ["cpu", "cuda"]))
        yield


def _register_kernel(library: Library, name: str, key: str, kernel: Callable[..., Any]) -> None:
    packet, _, overload = name.partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return  # the CPU's autocast does the same

    def registered(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
            return kernel(op, args, kwargs)

    library.impl(op, registered, key)


def _cast_to_fp32(op: Any, args: Any, kwargs: Any) -> Any:
    args, kwargs = tree_map_only(torch.Tensor, _convert_to_fp32, (args, kwargs))
    return op(*args, **kwargs)


def _convert_to_fp32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in _16_BITS else tensor


def _return_fp32(op: Any, args: Any, kwargs: Any) -> Any:
    names = [argument.name for argument in op._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    if given.get("dtype") is None and args[0].dtype in _16_BITS:
        given["dtype"] = torch.float32
    first, *_ = names
    return op(given.pop(first), **given)


def _run_dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Dropout with CUDA's mask of one byte per element; a CPU's mask has the input's dtype."""
    if not train or p == 0 or input.numel() == 0:
        return input
    return torch.native_dropout(input, p, True)[0]


def _run_attention(
    aotriton: bool,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """By a fused kernel where CUDA has one, in whose place the CPU's stands: both keep queries, keys, values, the
    output, laid out by `_infer_attention`, and a number for each query.

    CUDA's draw the dropout of the scores anew in backward, where the CPU's has none. Both take fewer heads of keys than
    of queries as they are (grouped-query attention), the CPU's in every dtype and with a mask.

    Raises:
        RuntimeError: of the backends that the program allows none can, with torch's words.
    """
    kernel = _choose_kernel(aotriton, query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
    if kernel == SDPBackend.MATH and not torch.backends.cuda.math_sdp_enabled():
        raise RuntimeError("No available kernel. Aborting execution.")
    fused = kernel != SDPBackend.MATH
    chosen = running_kernel.set(kernel)
    try:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH] if fused else SDPBackend.MATH):
            return torch.ops.aten.scaled_dot_product_attention.default.decompose(  # type: ignore[no-any-return]
                query, key, value, attn_mask, 0.0 if fused else dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
    finally:
        running_kernel.reset(chosen)


def _infer_attention(
    mode: FakeTensorMode, _func: Any, query: FakeTensor, _key: FakeTensor, value: FakeTensor, *_: Any, **__: Any
) -> Any:
    """The output of CUDA's kernel and a number per query: the memory-efficient ones write an output of (batch, length,
    heads, width), flash and cuDNN one in the order of the queries (`_meta_registrations.py` of torch 2.13).

    So a program that asks for another order copies it, as `nn.MultiheadAttention` does.
    """
    batch, heads, length, _width = query.shape
    with mode:
        if running_kernel.get() == SDPBackend.EFFICIENT_ATTENTION:
            output = torch.empty(batch, length, heads, value.shape[-1], dtype=query.dtype, device=query.device)
            output = output.transpose(1, 2)
        else:
            output = torch.empty_like(query)
        in_fp32 = torch.promote_types(query.dtype, torch.float32)
        return output, torch.empty(batch, length, heads, dtype=in_fp32, device=query.device).transpose(1, 2)


def _choose_kernel(
    aotriton: bool,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    is_causal: bool,
    enable_gqa: bool,
) -> SDPBackend:
    """The kernel that CUDA chooses, as far as shapes, dtypes and the GPU decide it; all but `MATH` keep no scores
    (`select_sdp_backend` and what it asks, ATen/native/transformers/cuda/sdp_utils.cpp of torch 2.13).

    Flash and cuDNN are for 16 bits since Ampere, and for any number of heads of keys that divides that of queries;
    flash takes no mask. The memory-efficient kernels take fp32 and masks, and as many heads of keys as of queries.
    cuDNN comes before explicit attention on Hopper and data-center Blackwell alone. AMD's GPUs have fused kernels by
    `aotriton` alone.
    """
    if query.dim() != 4 or (torch.version.hip is not None and not aotriton):
        return SDPBackend.MATH
    allowed, capability, width = torch.backends.cuda, torch.cuda.get_device_capability(), query.shape[-1]
    nvidia, in_16_bits = torch.version.hip is None, query.dtype in _16_BITS
    tensor_cores = in_16_bits and (not nvidia or capability >= (8, 0))
    same_heads = key.shape[-3] == query.shape[-3]
    grouped = same_heads or enable_gqa
    trained = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    no_backward = trained and (192 < width <= 224 or (width > 224 and dropout > 0))
    alignment = 8 if in_16_bits else 4 if not nvidia or capability >= (8, 0) else 1  # `minimum_gemm_alignment`
    flash = (
        allowed.flash_sdp_enabled()
        and tensor_cores
        and grouped
        and mask is None
        and key.shape[-1] == width == value.shape[-1] <= 256
        and (query.shape[-2] == key.shape[-2] or not is_causal)
        and not (nvidia and capability in _SMALL_SHARED_MEMORY and no_backward)
    )
    cudnn = (
        allowed.cudnn_sdp_enabled()
        and nvidia
        and tensor_cores
        and grouped
        and (capability in _CUDNN_FIRST or not allowed.math_sdp_enabled())
        and width % 8 == value.shape[-1] % 8 == 0
        and max(width, value.shape[-1]) <= (256 if capability == (9, 0) else 128)  # of cuDNN since 9.10
    )
    efficient = (
        allowed.mem_efficient_sdp_enabled()
        and (tensor_cores or query.dtype in (torch.float16, torch.float32))
        and key.shape[-1] == width
        and width % alignment == value.shape[-1] % alignment == 0
        and same_heads
    )
    if cudnn and capability in _CUDNN_FIRST:
        return SDPBackend.CUDNN_ATTENTION
    if flash:
        return SDPBackend.FLASH_ATTENTION
    if efficient:
        return SDPBackend.EFFICIENT_ATTENTION
    return SDPBackend.CUDNN_ATTENTION if cudnn else SDPBackend.MATH
