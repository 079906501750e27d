"""The sizes of a fused attention among its inputs, and whose kernel computes it."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from perfkit.cost.calls.op_call import Arg, TensorArg

# (batch, head, position, width); all others have the position before the head.
_HEADS_FIRST = re.compile(r"aten::(_scaled_dot_product|_cudnn_attention)")
_BACKWARD = re.compile(r"backward|bwd")

FLASH_2, FLASH_3, CUDNN, EFFICIENT = "FlashAttention-2", "FlashAttention-3", "cuDNN", "memory-efficient"
CK, TRITON, ON_CPU = "Composable Kernel", "Triton", "torch (CPU)"

# By the kernel's name, else by the op's: the first match.
_OF_KERNELS = (
    (CUDNN, r"cudnn"),
    (FLASH_3, r"FlashAttn(?:Fwd|Bwd)|flash_(?:fwd|bwd)_sm90|Sm90.*Flash|flash.*Sm90"),
    (CK, r"ck_tile|ck::|Fmha(?:Fwd|Bwd)|aiter"),
    (EFFICIENT, r"fmha_cutlass|AttentionKernel|AttentionBackwardKernel"),
    (FLASH_2, r"flash_(?:fwd|bwd)"),
    (TRITON, r"\battn_fwd|\bbwd_kernel|_attn_(?:fwd|bwd)"),
)
_OF_OPS = ((CUDNN, r"cudnn"), (ON_CPU, r"for_cpu"), (EFFICIENT, r"efficient"), (FLASH_3, r"flash_attn_3"))


class AttentionSizes(NamedTuple):
    """`batch` is None where sequences are packed: `queries` and `keys` are then those of all together."""

    batch: int | None
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    backward: bool
    has_mask_tensor: bool


def parse_attention(name: str, args: Sequence[Arg]) -> AttentionSizes | None:
    """The sizes of an attention; None where queries, keys and values are not its first tensors, as most have them."""
    backward = _BACKWARD.search(name) is not None
    tensors = [arg for arg in args if isinstance(arg, TensorArg)][1 if backward else 0 :]
    if len(tensors) < 3:
        return None
    query, key, value = (tensor.shape for tensor in tensors[:3])
    if not len(query) == len(key) == len(value) or len(query) not in (3, 4) or query[-1] != key[-1]:
        return None
    if len(query) == 3:
        return AttentionSizes(None, query[1], key[1], query[0], key[0], query[2], backward, has_mask_tensor=False)
    heads, positions = (1, 2) if _HEADS_FIRST.match(name) else (2, 1)
    # A mask is (batch, heads, queries, keys); where heads are as wide as there are keys, other tensors are like it.
    scores = (query[positions], key[positions])
    has_mask = key[positions] != query[3] and any(tensor.shape[2:] == scores for tensor in tensors[3:])
    return AttentionSizes(
        query[0],
        query[heads],
        key[heads],
        query[positions],
        key[positions],
        query[3],
        backward,
        has_mask_tensor=has_mask,
    )


def identify_backend(name: str, kernel: str) -> str:
    """The library of an attention call; empty where neither kernel nor op name shows it."""
    by_kernel = (library for library, pattern in _OF_KERNELS if re.search(pattern, kernel))
    by_op = (library for library, pattern in _OF_OPS if re.search(pattern, name))
    return next(by_kernel, "") or next(by_op, "")
