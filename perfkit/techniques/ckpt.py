"""`ckpt`: activation checkpointing. Recompute activations in the backward pass instead of keeping them."""

from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

from perfkit.errors import UnavailableError
from perfkit.record import Claim, Relation
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique

_aten = torch.ops.aten

# What selective checkpointing keeps: the outputs of matrix products, convolutions and attention, which hold nearly
# all of a block's FLOPs. What is cheap to recompute (norms, activations, softmax) is recomputed.
SAVED_OPS = frozenset(
    {
        _aten.mm.default,
        _aten.addmm.default,
        _aten.bmm.default,
        _aten.baddbmm.default,
        _aten.convolution.default,
        _aten._scaled_dot_product_flash_attention.default,
        _aten._scaled_dot_product_flash_attention_for_cpu.default,
        _aten._scaled_dot_product_efficient_attention.default,
        _aten._scaled_dot_product_cudnn_attention.default,
    }
)

# Ops that only a forward pass calls, so that one of them inside backward is recomputation.
_WEIGHTED_MODULES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_WEIGHTED_OPS = "aten::linear,aten::conv1d,aten::conv2d,aten::conv3d"
_CHEAP_OPS = (
    "aten::layer_norm,aten::batch_norm,aten::group_norm,aten::rms_norm,aten::gelu,aten::relu,aten::relu_,aten::silu"
)


class Ckpt(Technique):
    name: ClassVar[str] = "ckpt"
    summary: ClassVar[str] = (
        "recompute activations of the blocks in backward: all, all but products, or to a memory budget"
    )
    stage: ClassVar[Stage] = Stage.CHECKPOINT

    mode: Literal["full", "selective", "budget"] = "full"
    every: Annotated[int, msgspec.Meta(ge=1, description="checkpoint every n-th block")] = 1
    budget: Annotated[
        float, msgspec.Meta(ge=0, lt=1, description="share of the activation memory to keep, for mode=budget")
    ] = 0.5

    def __post_init__(self) -> None:
        if self.mode == "budget" and self.every != 1:
            raise ValueError("every belongs to mode=full and mode=selective; mode=budget treats the whole graph")

    def apply(self, state: TrainState) -> TrainState:
        if self.mode == "budget":
            # torch.compile's partitioner reads the setting when it compiles, which is at the first step.
            state.enter(torch._functorch.config.patch(activation_memory_budget=self.budget))
            return state
        names = self._checkpointed(state)
        if not names:
            raise UnavailableError(f"the workload {state.workload.name} names no blocks to checkpoint")
        options: dict[str, Any] = {}
        if self.mode == "selective":
            options["context_fn"] = partial(create_selective_checkpoint_contexts, _save_products)
        for name in names:
            block = state.bare_model.get_submodule(name)
            state.bare_model.set_submodule(name, checkpoint_wrapper(block, **options))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.mode == "budget":
            # A compiled graph that keeps everything saves about as much as eager; with a share b of it kept, the
            # saved bytes lie between b and 1, since what the backward pass needs in any case is kept too.
            return (self._saves_less(0.5 + self.budget / 2),)
        weighted = sum(
            any(isinstance(module, _WEIGHTED_MODULES) for module in state.bare_model.get_submodule(name).modules())
            for name in self._checkpointed(state)
        )
        share = weighted / len(state.block_names)
        # Full: at least 30 % of what the blocks saved is gone; selective keeps the products, so it asks for 10 %.
        claims = [self._saves_less(1 - (0.3 if self.mode == "full" else 0.1) * share)]
        if "compile" in state.applied:
            return tuple(claims)  # recomputation is inside compiled code, which calls no forward ops by name
        recomputed = _WEIGHTED_OPS if self.mode == "full" else _CHEAP_OPS
        if weighted:
            claims.append(
                Claim(
                    technique=self.name,
                    statement="forward ops of every checkpointed block run again inside backward",
                    fact=f"backward_op_calls:{recomputed}",
                    relation=Relation.AT_LEAST,
                    value=float(weighted),
                )
            )
        return tuple(claims)

    def _checkpointed(self, state: TrainState) -> tuple[str, ...]:
        return state.block_names[:: self.every]

    def _saves_less(self, factor: float) -> Claim:
        return Claim(
            technique=self.name,
            statement="less is saved for backward than by the unmodified model",
            fact="saved_tensor_bytes",
            relation=Relation.AT_MOST,
            value=factor,
            relative_to="reference_saved_tensor_bytes",
        )


def _save_products(_context: object, op: object, *_args: object, **_kwargs: object) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_SAVE if op in SAVED_OPS else CheckpointPolicy.PREFER_RECOMPUTE
