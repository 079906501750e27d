"""`liger`: Liger's Triton kernels for the norms, the rotary embedding and the gates of a Transformers model."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import ClassVar

import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import get_accelerator
from perfkit.techniques.activations.liger_stand_in import replace_layers
from perfkit.techniques.base.conflict import Conflict, make_conflicts
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import UNKNOWN_EFFECT, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage, Technique

# Model types of Transformers whose layers Liger replaces in the way that a plan stands in for.
_FAMILIES = ("llama", "mistral", "qwen2", "qwen3")


class Liger(Technique):
    """Liger's fused kernels for the layers around the matmuls of a decoder of Transformers (`hf:`).

    - RMSNorm keeps its input and a number a row, and writes the gradient over the incoming one.
    - The rotary embedding turns queries and keys in place.
    - SwiGLU keeps the outputs of both linear layers, and recomputes their product with the activation in backward.

    For `llama`, `mistral`, `qwen2` and `qwen3`. The loss is `fused_ce:backend=liger`. On GPUs; it has not been run on
    one yet. `pip install liger-kernel`.
    """

    name: ClassVar[str] = "liger"
    summary: ClassVar[str] = "fused RMSNorm, rotary embedding and SwiGLU: intermediate results are not kept"
    when: ClassVar[str] = "when activations of a Llama-like model fill the memory, or its element-wise ops the step"
    costs: ClassVar[str] = "Triton compiles the kernels in the first steps"
    paper: ClassVar[str] = (
        "Hsu et al., Liger Kernel: Efficient Triton Kernels for LLM Training, 2024, https://arxiv.org/abs/2410.10989"
    )
    examples: ClassVar[tuple[str, ...]] = ("liger", "liger+fused_ce:backend=liger")
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    purpose_place: ClassVar[int] = 1
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(UNKNOWN_EFFECT, Counted.STATES)
    conflicts: ClassVar[tuple[Conflict, ...]] = make_conflicts(
        ("tp", "cp", "ep", "pp"), "Liger's kernels have not been tried with split layers"
    )

    def package(self) -> Package | None:
        return Package("liger_kernel", "liger-kernel")

    def unavailable(self, device: torch.device) -> str | None:
        runs = get_accelerator(device).has_triton
        return None if runs else "Liger's kernels are written in Triton, and run on GPUs only"

    def plannable(self) -> PlanSupport:
        return PlanSupport(reason="planned with the tensors of liger-kernel 0.8.5, not its kernels", stands_in=True)

    def apply(self, state: TrainState) -> TrainState:
        kind = getattr(getattr(state.model, "config", None), "model_type", "")
        if kind not in _FAMILIES:
            raise UnavailableError(
                f"the workload {state.workload.name} is no Transformers model of a known family; "
                f"use one of {', '.join(_FAMILIES)}",
                id="skip.no_tensors",
            )
        modeling = sys.modules[type(state.model).__module__]
        state.enter(_restore_globals(modeling))
        if state.planned_for is not None:
            replace_layers(state.model, modeling)
            return state
        from liger_kernel.transformers import _apply_liger_kernel_to_instance

        _apply_liger_kernel_to_instance(state.model, cross_entropy=False, fused_linear_cross_entropy=False)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        blocks = float(len(state.block_names) or 1)
        claims = [
            self._make_claim(statement, f"kernel_calls:{kernel}", Relation.AT_LEAST, least)
            for statement, kernel, least in (
                ("Liger's RMSNorm runs twice a block", "*rms_norm_forward_kernel*", 2 * blocks),
                ("Liger's rotary embedding runs in every block", "_triton_rope*", blocks),
                ("Liger's SwiGLU runs in every block", "_swiglu_forward_kernel*", blocks),
            )
        ]
        if "amp" not in state.applied:  # which keeps copies of the weights, too
            saved, reference = "saved_tensor_bytes", "reference_saved_tensor_bytes"
            claims.append(self._make_claim("less is saved for backward", saved, Relation.AT_MOST, 1.0, reference))
        return tuple(claims)


@contextmanager
def _restore_globals(module: ModuleType) -> Iterator[None]:
    """Undo what is replaced in a module of Transformers, which other models share."""
    kept = dict(vars(module))
    try:
        yield
    finally:
        vars(module).update(kept)
