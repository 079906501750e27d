"""Ops whose outputs selective checkpointing keeps: by default matmuls, convolutions and attention."""

from collections.abc import Callable, Mapping

import torch
from torch._ops import OpOverloadPacket
from torch.utils.checkpoint import CheckpointPolicy

from perfkit.core.errors import UnavailableError, UsageError

# They hold nearly all of a block's FLOPs. What is cheap to recompute (norms, activations, softmax) is recomputed.
PRODUCTS = (
    "mm",
    "addmm",
    "bmm",
    "baddbmm",
    "convolution",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
)
FACT = "saved_ops"

# Views that autograd and torch's check of kept tensors take for copies. Cells of GRUs split products with them, and
# change the parts in place: recomputation would go on from the changed product, and gradients be wrong.
_UNSEEN_VIEWS = frozenset({torch.ops.aten.unsafe_split.Tensor, torch.ops.aten.unsafe_split_with_sizes.default})

Policy = Callable[..., CheckpointPolicy]


def resolve_ops(names: tuple[str, ...]) -> dict[object, str]:
    """Each overload of the named ops, with the name: `mm`, `aten.mm`, `mylib.attention`. Raises `UsageError`."""
    return {overload: name for name in names for overload in _find_overloads(name)}


def make_policy(ops: Mapping[object, str], facts: dict[str, float]) -> Policy:
    """A policy for `create_selective_checkpoint_contexts` that keeps what `ops` return and recomputes the rest.

    How many of the names it met is put into `facts`. It raises `UnavailableError` where a kept result may be changed
    unseen.
    """
    met: set[str] = set()
    facts[FACT] = 0.0

    def policy(_context: object, op: object, *_args: object, **_kwargs: object) -> CheckpointPolicy:
        if op in _UNSEEN_VIEWS:
            raise UnavailableError(
                "mode=selective keeps results of matmuls, and a recurrent cell changes them in place; use mode=full",
                id="skip.step",
            )
        if op not in ops:
            return CheckpointPolicy.PREFER_RECOMPUTE
        met.add(ops[op])
        facts[FACT] = float(len(met))
        return CheckpointPolicy.MUST_SAVE

    return policy


def _find_overloads(name: str) -> tuple[object, ...]:
    namespace, _, op = name.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace or "aten"), op, None) if op else None
    if not isinstance(packet, OpOverloadPacket):
        raise UsageError(f"ckpt: save={name}: torch has no such op; expected one such as mm, aten.mm, mylib.op")
    return tuple(getattr(packet, overload) for overload in packet.overloads())
