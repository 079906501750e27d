"""`ckpt`: activation checkpointing. Recompute activations in the backward pass instead of keeping them."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
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


class Ckpt(Technique):
    """Activation checkpointing: the blocks' activations are recomputed in the backward pass instead of kept.

    - `full` keeps only the blocks' inputs (`checkpoint_wrapper`, non-reentrant).
    - `selective` also keeps the outputs of GEMMs, convolutions and attention (`create_selective_checkpoint_contexts`)
      and recomputes the rest: less memory saved, hardly any time lost.
    - `budget` leaves the choice to the partitioner of torch.compile
      (`torch._functorch.config.activation_memory_budget`), and so needs `compile`.

    The checkpointed blocks must together leave fewer bytes allocated for backward than the same blocks of the
    unmodified model (`full`: at most 70 %; `selective`: 90 %), each of them must be called again inside backward, and
    there (`full`) execute at least 10 % of the blocks' forward FLOPs a second time. What the rest of the model saves,
    or what `zero3` gathers for a block and frees after it, does not count. Under `compile`, where no call of a block is
    seen, it is the whole model that must save less, scaled with the share of blocks checkpointed (`budget` *b*: (1 +
    *b*)/2).
    """

    name: ClassVar[str] = "ckpt"
    summary: ClassVar[str] = (
        "recompute activations of the blocks in backward: all, all but products, or to a memory budget"
    )
    when: ClassVar[str] = "where activations fill the memory: deep models, long sequences, large batches"
    costs: ClassVar[str] = "up to one more forward pass of the checkpointed blocks in every step"
    paper: ClassVar[str] = (
        "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016, https://arxiv.org/abs/1604.06174"
    )
    examples: ClassVar[tuple[str, ...]] = ("ckpt", "ckpt:mode=selective", "ckpt:mode=budget+compile")
    stage: ClassVar[Stage] = Stage.CHECKPOINT
    refusals: ClassVar[Mapping[str, str]] = {
        "only allowed to backward once on any region computed under selective activation checkpoint": "mode=selective "
        "knows one backward pass of what it recomputes, and the step differentiates a gradient; use mode=full"
    }

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
            block = state.model.get_submodule(name)
            state.model.set_submodule(name, checkpoint_wrapper(block, **options))
        state.checkpointed = names
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.mode == "budget":
            # A compiled graph that keeps everything saves about as much as eager; with a share b of it kept, the
            # saved bytes lie between b and 1, since what the backward pass needs in any case is kept too.
            return (self._saves_less(0.5 + self.budget / 2),)
        # Full: at least 30 % of what the blocks saved is gone; selective keeps the products, so it asks for 10 %.
        remains = 0.7 if self.mode == "full" else 0.9
        blocks = self._checkpointed(state)
        if "compile" in state.applied:  # blocks within compiled code are not seen
            return (self._saves_less(1 - (1 - remains) * len(blocks) / len(state.block_names)),)
        claims = [
            Claim(
                technique=self.name,
                statement="the checkpointed blocks save less for backward than the unmodified model's",
                fact="block_saved_tensor_bytes",
                relation=Relation.AT_MOST,
                value=remains,
                relative_to="reference_block_saved_tensor_bytes",
            ),
            Claim(
                technique=self.name,
                statement="every checkpointed block runs its forward again inside backward",
                fact="recomputed_blocks",
                relation=Relation.AT_LEAST,
                value=float(len(blocks)),
            ),
        ]
        if self.mode == "full":
            # Not all of it: recomputation stops at the last tensor that backward needs.
            claims.append(
                Claim(
                    technique=self.name,
                    statement="FLOPs of their forward are executed beyond the model's",
                    fact="recomputed_flops",
                    relation=Relation.AT_LEAST,
                    value=0.1,
                    relative_to="block_flops",
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
