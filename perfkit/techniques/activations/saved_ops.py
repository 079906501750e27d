"""Ops whose outputs selective checkpointing keeps: by default matmuls, convolutions and attention."""

from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch
from torch._ops import OpOverloadPacket
from torch.utils.checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

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
# What linear layers call.
GEMMS = ("mm", "addmm")
FACT = "saved_ops"


# Views that autograd and torch's check of kept tensors take for copies. Cells of GRUs split products with them, and
# change the parts in place: recomputation would go on from the changed product, and gradients be wrong.
_UNSEEN_VIEWS = frozenset({torch.ops.aten.unsafe_split.Tensor, torch.ops.aten.unsafe_split_with_sizes.default})


def resolve_ops(names: tuple[str, ...]) -> dict[object, str]:
    """Each overload of the named ops, with the name: `mm`, `aten.mm`, `mylib.attention`. Raises `UsageError`."""
    return {overload: name for name in names for overload in _find_overloads(name)}


class SavedOps:
    """Makes the contexts of each checkpointed forward: keeps what some ops return, and recomputes the rest.

    Of GEMMs among them it keeps every `every`-th, the first included, as counted anew in each block's forward; its
    recomputation counts the same. How many of the names it met is put into `facts`. It raises `UnavailableError` where
    a kept result may be changed unseen.
    """

    def __init__(self, ops: Mapping[object, str], every: int, facts: dict[str, float]) -> None:
        self._ops = ops
        self._every = every
        self._gemms = frozenset(resolve_ops(GEMMS))
        self._facts = facts
        self._met: set[str] = set()
        facts[FACT] = 0.0

    def make_contexts(self) -> tuple[AbstractContextManager[object], AbstractContextManager[object]]:
        """Make the contexts of one forward and of its recomputation."""
        seen: Counter[bool] = Counter()

        def choose(
            context: SelectiveCheckpointContext, op: object, *_args: object, **_kwargs: object
        ) -> CheckpointPolicy:
            if op in _UNSEEN_VIEWS:
                raise UnavailableError(
                    "mode=selective keeps results of matmuls, and a recurrent cell changes them in place; "
                    "use mode=full",
                    id="skip.step",
                )
            if op not in self._ops:
                return CheckpointPolicy.PREFER_RECOMPUTE
            if op in self._gemms:
                place = seen[context.is_recompute]
                seen[context.is_recompute] += 1
                if place % self._every:
                    return CheckpointPolicy.PREFER_RECOMPUTE
            self._met.add(self._ops[op])
            self._facts[FACT] = float(len(self._met))
            return CheckpointPolicy.MUST_SAVE

        forward, again = create_selective_checkpoint_contexts(choose)
        return forward, again


def _find_overloads(name: str) -> tuple[object, ...]:
    namespace, _, op = name.rpartition(".")
    packet = getattr(getattr(torch.ops, namespace or "aten"), op, None) if op else None
    if not isinstance(packet, OpOverloadPacket):
        raise UsageError(f"ckpt: save={name}: torch has no such op; expected one such as mm, aten.mm, mylib.op")
    return tuple(getattr(packet, overload) for overload in packet.overloads())
