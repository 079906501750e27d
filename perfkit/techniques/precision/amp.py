"""`amp`: automatic mixed precision. GEMMs in 16 bits, parameters and reductions in fp32."""

from typing import ClassVar, Literal

import torch
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import NO_FP32_PRODUCTS, Conflict
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import Closure, TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique


class GradientScaling:
    """Scales losses before backward and gradients back before an update; an update that overflowed is left out.

    There is one scale, which stays as it is until the step is over: gradients of losses that were scaled by it may
    still wait for their update. Then it is halved if any update overflowed.
    """

    def __init__(self, state: TrainState) -> None:
        self._scaler = torch.amp.GradScaler(state.device.type)
        self._backward = state.backward
        self._skipped = state.skipped_updates
        self._first = 0  # the first update of this step
        self._forgotten = 0  # and those that the scaler has forgotten
        self._checked: set[int] = set()
        state.backward = self.backward
        state.optimizer_step = self.update
        state.after_updates = self.end_step

    def backward(self, loss: torch.Tensor) -> None:
        self._backward(self._scaler.scale(loss))

    def update(self, optimizer: Optimizer, closure: Closure | None) -> None:
        if closure is not None:
            raise UnavailableError(
                f"{type(optimizer).__name__} evaluates the loss within its update, which a gradient "
                "scaler cannot check",
                id="skip.closure",
            )
        if id(optimizer) in self._checked:
            self._reset_scaler()
        self._checked.add(id(optimizer))
        self._skipped.append(True)
        handle = optimizer.register_step_post_hook(self._record_update)
        try:
            self._scaler.step(optimizer)
        finally:
            handle.remove()

    def end_step(self) -> None:
        if self._checked:
            if any(bool(flag) for flag in self._skipped[self._first : self._forgotten]):
                self._scaler.update(new_scale=self._scaler.get_scale() * self._scaler.get_backoff_factor())
            else:
                self._scaler.update()
        self._checked.clear()
        self._first = self._forgotten = len(self._skipped)

    def _record_update(self, optimizer: Optimizer, *_of_the_call: object) -> None:
        # Fused optimizers are called in any case, and leave the update out themselves.
        overflow = getattr(optimizer, "found_inf", None)
        self._skipped[-1] = False if overflow is None else overflow.clone()

    def _reset_scaler(self) -> None:
        """A scaler takes one update of each optimizer between two changes of its scale: change it to what it is."""
        self._scaler.update(new_scale=self._scaler.get_scale())
        self._checked.clear()
        self._forgotten = len(self._skipped)


_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# Every activation and weight is rounded to a relative error of eps/2 before each product. The errors of a sum of
# products are independent, so that the loss, an average over many of them, moves by little more than one rounding;
# what grows is the drift of the parameters over the steps compared. Eight roundings cover ten steps.
_ROUNDINGS = 8


class Amp(Technique):
    """Automatic mixed precision (`torch.autocast`).

    GEMMs, convolutions and attention take 16-bit operands; parameters, optimizer state and reductions stay in fp32.
    `fp16` adds gradient scaling (`torch.amp.GradScaler`, on a CPU too): an update whose gradients overflow is skipped,
    on all ranks under `zero2` and `zero3`, and shows as a difference in losses.

    Losses may differ by 8 roundings of the dtype; a few steps of the tests' model differ by 2e-4 (bf16) and 3e-5
    (fp16).
    """

    name: ClassVar[str] = "amp"
    summary: ClassVar[str] = "mixed precision: GEMMs in bf16, or in fp16 with a gradient scaler"
    when: ClassVar[str] = "when fp32 matmuls dominate the step and the device has 16-bit units"
    costs: ClassVar[str] = "rounded operands in every matmul; a 16-bit copy of each weight while in use"
    paper: ClassVar[str] = "Micikevicius et al., Mixed Precision Training, ICLR 2018, https://arxiv.org/abs/1710.03740"
    examples: ClassVar[tuple[str, ...]] = ("amp", "amp:dtype=fp16")
    # First of all, so that what follows knows the dtype it will meet (attention kernels depend on it).
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.PRECISION
    advice: ClassVar[tuple[str, ...]] = ("gemm.fp32", "memory.activations")
    saves_activations: ClassVar[bool] = True
    planning: ClassVar[Planning] = Planning(
        ESTIMATED, Counted.ALL, (MemorySaving(MemoryPrice.ROUNDED_OPERANDS, tried=("amp",), searched=("amp",)),)
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("bf16", "with bf16 parameters, autocast has nothing to cast"),
        Conflict("tf32", NO_FP32_PRODUCTS),
        Conflict("fp8", "both choose the dtype of linear layers' matmuls; use bf16+fp8"),
        Conflict(
            "optim_in_backward",
            "gradients are unscaled after backward, too late for updates in backward",
            when="dtype=fp16",
        ),
        Conflict(
            "fused_ce",
            "its gradients are computed in fp16 in the forward pass, before the loss is scaled: losses would change",
            when="dtype=fp16",
        ),
        Conflict("engine", "an engine scales gradients itself, with another scaler", when="dtype=fp16"),
    )

    dtype: Literal["bf16", "fp16"] = "bf16"

    def computes_in(self, dtype: str) -> str:
        return self.dtype

    def apply(self, state: TrainState) -> TrainState:
        if state.compute_dtype in _DTYPES:
            raise UnavailableError(
                f"amp casts fp32 to {self.dtype}, but the parameters are {state.compute_dtype} already; omit "
                "amp, or use --dtype fp32",
                id="skip.dtype",
            )
        device_type = state.device.type
        state.forward_contexts.append(lambda: torch.autocast(device_type, dtype=_DTYPES[self.dtype]))
        state.compute_dtype = self.dtype
        if self.dtype == "fp16":
            GradientScaling(state)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        claims = [
            self._make_claim("GEMMs have 16-bit operands", f"matmul_flops_share:{self.dtype}", Relation.AT_LEAST, 0.9)
        ]
        if self.dtype == "fp16":
            unscaling = "op_calls:aten::_amp_foreach_non_finite_check_and_unscale_"
            statement = "gradients are unscaled and checked for overflow"
            claims.append(self._make_claim(statement, unscaling, Relation.AT_LEAST, 1.0))
        return tuple(claims)

    def parity(self) -> ParityRule:
        relative = _ROUNDINGS * torch.finfo(_DTYPES[self.dtype]).eps
        return ParityRule(relative=relative, basis=f"{_ROUNDINGS} roundings of {self.dtype}")
