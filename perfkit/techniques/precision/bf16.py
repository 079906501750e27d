"""`bf16`: parameters, gradients and optimizer state in bf16, with updates that rounding does not lose."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from perfkit.core.allocations import OPTIMIZER_STATE
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import BASELINE, ParamValue
from perfkit.techniques.base.conflict import NO_FP32_PRODUCTS, UPDATED_TOGETHER, Conflict
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import FUSED_UPDATE, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.optimizers.optimizer_state import compute_state_bytes
from perfkit.techniques.precision.bf16_updates import UPDATES
from perfkit.workloads.workload import cast_model

_ROUNDINGS = 8  # as `amp`


class Bf16(Technique):
    """Keeps parameters, activations, gradients and optimizer state in bf16, without a copy in fp32.

    bf16 has 8 bits of mantissa, so an update below 1/256 of a parameter is rounded away.

    - `update=kahan` keeps the loss in one more number per parameter and adds it to the next update (Kahan summation),
      by torch-optimi's Adam, AdamW and SGD.
    - `update=stochastic` rounds the fp32 sum up or down at random with the right mean, by torchao's AdamW. Losses are
      not comparable if the forward draws random numbers too (dropout).
    - `update=nearest` is the workload's own optimizer, which loses it.
    """

    name: ClassVar[str] = "bf16"
    summary: ClassVar[str] = "parameters, gradients and optimizer state in bf16; update= says how updates are rounded"
    when: ClassVar[str] = "when parameters and optimizer state fill the memory"
    costs: ClassVar[str] = "8 bits of mantissa everywhere; 2 bytes per parameter with Kahan summation (update=kahan)"
    paper: ClassVar[str] = (
        "Zamirai et al., Revisiting BFloat16 Training, 2020, https://arxiv.org/abs/2010.06192; "
        "optimi, https://optimi.benjaminwarner.dev; torchao, https://github.com/pytorch/ao"
    )
    examples: ClassVar[tuple[str, ...]] = ("bf16", "bf16:update=nearest", "bf16:update=stochastic")
    stage: ClassVar[Stage] = Stage.MODEL
    advice: ClassVar[tuple[str, ...]] = (
        "gemm.fp32",
        "dtype.conversions",
        "memory.parameters",
        "memory.autocast_copies",
    )
    purpose: ClassVar[Purpose] = Purpose.PRECISION
    purpose_place: ClassVar[int] = 1
    planning: ClassVar[Planning] = Planning(
        ESTIMATED, Counted.ACTIVATIONS, (MemorySaving(MemoryPrice.ROUNDED_STATE, tried=("bf16",), searched=("bf16",)),)
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("tf32", NO_FP32_PRODUCTS),
        Conflict("optim", "its Kahan summation needs its own optimizers; use bf16:update=nearest", when="update=kahan"),
        Conflict("optim", "it rounds in its own optimizer; use bf16:update=nearest", when="update=stochastic"),
        Conflict("qlora", "adapters over 4-bit weights are kept in fp32"),
        Conflict("optim_in_backward", UPDATED_TOGETHER, when="update=kahan"),
    )
    # Torch 2.11 computes no gradient of such a loss (mse_loss); torch 2.13 does.
    refusals: ClassVar[Mapping[str, str]] = {
        "Found dtype Float but expected BFloat16": "its loss compares bf16 outputs with fp32 targets, "
        f"for which torch {torch.__version__} has no "
        "gradient; cast the outputs to fp32 in the loss, or use torch 2.13"
    }

    update: Literal["kahan", "stochastic", "nearest"] = "kahan"

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        return {"update": ("nearest" if self.update != "nearest" else "kahan",)}

    def package(self) -> Package | None:
        return UPDATES[self.update].package if self.update in UPDATES else None

    def compiles(self) -> bool:
        return self.update == "stochastic"

    def plannable(self) -> PlanSupport:
        return FUSED_UPDATE if self.compiles() else super().plannable()

    def computes_in(self, dtype: str) -> str:
        return "bf16"

    def apply(self, state: TrainState) -> TrainState:
        if state.compute_dtype == "bf16":
            raise UnavailableError("the parameters are bf16 already")
        for model in state.models.values():
            cast_model(model, torch.bfloat16)
            model.register_forward_pre_hook(_cast_inputs, with_kwargs=True)
        state.compute_dtype = "bf16"
        if self.update in UPDATES:
            state.optimizer_changes.append(UPDATES[self.update].optimizer)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        share, reference = "matmul_flops_share:bf16", "reference_parameter_bytes"
        complex_bytes = sum(p.nbytes for p in state.model.parameters() if p.is_complex())
        added_bytes = state.facts.get("adapter_bytes", 0.0)  # which the reference lacks
        floating_bytes = sum(p.nbytes for p in state.model.parameters() if not p.is_complex()) - added_bytes
        # Complex parameters keep their dtype; the others had two bytes for each of theirs.
        left = (complex_bytes + 0.51 * 2 * floating_bytes + added_bytes) / (complex_bytes + 2 * floating_bytes)
        statement = "parameters take half the bytes" if not complex_bytes else "real parameters take half the bytes"
        halved = self._make_claim(statement, "parameter_bytes", Relation.AT_MOST, left, reference)
        products = self._make_claim("matmuls have bf16 operands", share, Relation.AT_LEAST, 0.9)
        return (halved, *(() if "fp8" in state.applied else (products,)), *self._make_update_claims(state))

    def _make_update_claims(self, state: TrainState) -> tuple[Claim, ...]:
        fact = "optimizer_state_bytes"
        if self.update in UPDATES:
            expected = compute_state_bytes(state.optimizers.values(), UPDATES[self.update].state)
            statement = "optimizer state has this many bf16 numbers"  # within 5 %: the optimizer's scalars
            kept = self._make_claim(statement, fact, Relation.EQUAL, expected, tolerance=0.05)
            if self.update == "kahan":
                return (kept,)
            return kept, self._make_claim("updates are rounded stochastically", "random_updates", Relation.EQUAL, 1.0)
        if "optim" in state.applied:
            return ()  # that optimizer's state is its own claim, and some keep it in fp32
        return (self._make_claim("optimizer state takes half the bytes", fact, Relation.AT_MOST, 0.51, BASELINE),)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {OPTIMIZER_STATE: math.inf} if self.update in UPDATES else {}  # which its claims check

    def parity(self) -> ParityRule:
        eps = torch.finfo(torch.bfloat16).eps
        return ParityRule(relative=_ROUNDINGS * eps, basis=f"{_ROUNDINGS} roundings of bf16 parameters")


def _cast_inputs(
    _model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_cast_to_bf16, args)), {name: _cast_to_bf16(value) for name, value in kwargs.items()}


def _cast_to_bf16(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.bfloat16) if floating else value
