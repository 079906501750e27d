"""`fused_ce`: the output layer and the cross-entropy in one op, in chunks, so that no logits are kept."""

from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import get_accelerator
from perfkit.techniques.activations.liger_stand_in import lose_as_liger
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.base.trial import autocast_to_step, draw_trial_microbatch
from perfkit.workloads.workload import LinearLoss, WithLinearLoss

_WHOLE = "aten::cross_entropy_loss"
_OP = "torch_nn::_linear_cross_entropy_batch_chunked"


class FusedCe(Technique):
    """Fused linear cross-entropy: the output layer's matmul and the loss of its logits in one op.

    Logits and their gradients are made for a chunk of tokens at a time. Kept for backward are the gradients of the
    features (tokens x width) and of the weight (vocabulary x width) instead of features and logits (tokens x
    vocabulary): vocabulary x (tokens - width) elements less.

    - `torch`: `torch.nn.functional.linear_cross_entropy` (torch 2.13). `chunk` is the number of tokens; 0 leaves it to
      torch.
    - `liger`: Liger's Triton kernels, on GPUs.

    The workload says where its output layer is (`linear_loss`), as `gpt` and causal models of `hf` do. Skipped where a
    batch has no more tokens than the model is wide. With `amp` the loss itself is rounded to 16 bits.
    """

    name: ClassVar[str] = "fused_ce"
    summary: ClassVar[str] = "output layer and cross-entropy in one op, in chunks: no logits are kept"
    when: ClassVar[str] = "when the vocabulary is large and a batch has many more tokens than the model's width"
    costs: ClassVar[str] = "smaller matmuls, and output-layer gradients held from the forward pass on"
    paper: ClassVar[str] = (
        "Hsu et al., Liger Kernel: Efficient Triton Kernels for LLM Training, 2024, https://arxiv.org/abs/2410.10989"
    )
    examples: ClassVar[tuple[str, ...]] = ("fused_ce", "fused_ce:backend=liger")
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    purpose_place: ClassVar[int] = 1
    advice: ClassVar[tuple[str, ...]] = ("memory.logits",)
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(
        ESTIMATED, Counted.ALL, (MemorySaving(MemoryPrice.RECOMPUTATION, tried=("fused_ce",)),)
    )

    backend: Literal["torch", "liger"] = "torch"
    chunk: Annotated[int, msgspec.Meta(ge=0, description="tokens per chunk; 0: chosen by the library")] = 0

    def __post_init__(self) -> None:
        if self.backend == "liger" and self.chunk:
            raise ValueError("chunk needs backend=torch; Liger chooses its own")

    def package(self) -> Package | None:
        return Package("liger_kernel", "liger-kernel") if self.backend == "liger" else None

    def unavailable(self, device: torch.device) -> str | None:
        if self.backend == "liger":
            runs = get_accelerator(device).has_triton
            return None if runs else "Liger's kernels are written in Triton, and run on GPUs only"
        if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
            return f"torch {torch.__version__} has no chunked linear_cross_entropy; install torch 2.13"
        return None

    def plannable(self) -> PlanSupport:
        if self.backend == "torch":
            return PlanSupport()
        return PlanSupport(
            reason="planned with the tensors and products of liger-kernel 0.8.5, not its kernels", stands_in=True
        )

    def apply(self, state: TrainState) -> TrainState:
        linear_loss = state.workload.linear_loss
        if linear_loss is None:
            raise UnavailableError(f"the workload {state.workload.name} does not name its output layer (linear_loss)")
        if state.workload.step is not None:
            raise UnavailableError(
                f"the workload {state.workload.name} defines its own step, which computes the loss", id="skip.own_step"
            )
        tokens, width = _measure_tokens_and_width(linear_loss, state)
        if tokens <= width:
            raise UnavailableError(
                f"no memory to save: per class, {width} weight gradients would replace {tokens} logits; "
                "use it when a batch has more tokens than the model's width",
                id="skip.no_gain",
            )
        fused = self._make_loss(state.device.type, is_planned=state.planned_for is not None)
        state.workload = replace(state.workload, loss=lambda model, batch: linear_loss(model, batch, fused))
        return state

    def _make_loss(self, device: str, *, is_planned: bool) -> LinearLoss:
        if self.backend == "torch":
            make_options = torch.nn.LinearCrossEntropyOptions
            options = make_options(batch_chunk_size=self.chunk, chunking_method=None) if self.chunk else make_options()
            fused: LinearLoss = partial(F.linear_cross_entropy, options=options)
        elif is_planned:
            fused = lose_as_liger
        else:
            from liger_kernel.transformers import LigerFusedLinearCrossEntropyLoss

            liger = LigerFusedLinearCrossEntropyLoss()

            def fused(features: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
                value: torch.Tensor = liger(weight, features, targets)
                return value

        def loss(features: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            """Autocast handles a linear layer but not this op, and would cast inside it."""
            if not torch.is_autocast_enabled(device):
                return fused(features, weight, targets)
            dtype = torch.get_autocast_dtype(device)
            with torch.autocast(device, enabled=False):
                return fused(features.to(dtype), weight.to(dtype), targets)

        return loss

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        runs = f"op_calls:{_OP}" if self.backend == "torch" else "kernel_calls:liger_cross_entropy_kernel*"
        claims = [
            self._make_claim("the fused op runs", runs, Relation.AT_LEAST, 1.0),
            self._make_claim("no cross-entropy of whole logits is left", f"op_calls:{_WHOLE}", Relation.AT_MOST, 0.0),
        ]
        if "amp" not in state.applied:  # which keeps copies of the weights, too
            saved, reference = "saved_tensor_bytes", "reference_saved_tensor_bytes"
            claims.append(self._make_claim("less is saved for backward", saved, Relation.AT_MOST, 1.0, reference))
        return tuple(claims)


def _measure_tokens_and_width(linear_loss: WithLinearLoss, state: TrainState) -> tuple[int, int]:
    """Measure the number and the width of a microbatch's features, by one forward pass."""
    shapes: list[torch.Size] = []

    def seen(features: torch.Tensor, _weight: torch.Tensor, _targets: torch.Tensor) -> torch.Tensor:
        shapes.append(features.shape)
        return features.sum()

    with (
        draw_trial_microbatch(state) as batch,
        torch.no_grad(),
        autocast_to_step(state),
        state.enter_forward_contexts(),
    ):
        linear_loss(state.model, batch, seen)
    ((tokens, width),) = shapes
    return tokens, width
