"""`flash`: fused attention. The workload's explicit attention is switched to torch's, run by one of its backends."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel

from perfkit.core.allocations import OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import get_accelerator, is_cpu, is_cuda
from perfkit.techniques.activations.attention_calls import (
    AttentionExtent,
    BackendProbe,
    make_flex_attention,
    make_windowed_attention,
    replace_attention,
)
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanMode, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.base.trial import autocast_to_step, discard_saved_tensors, draw_trial_microbatch
from perfkit.workloads.model_loss import call_loss

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
_CALLS = {
    "flash": "op_calls:aten::_scaled_dot_product_flash_attention,aten::_scaled_dot_product_flash_attention_for_cpu",
    "efficient": "op_calls:aten::_scaled_dot_product_efficient_attention",
    "math": "op_calls:aten::_scaled_dot_product_attention_math",
    "cudnn": "op_calls:aten::_scaled_dot_product_cudnn_attention",
    "flex": "kernel_calls:*flex_attention*",  # triton_tem_fused_flex_attention_0, ..._backward_2
    # Not `_scaled_dot_product_attention_math`; the last one is that of other devices.
    "auto": "op_calls:aten::_scaled_dot_product_*attention,aten::_scaled_dot_product_flash_attention_for_cpu,"
    "aten::_scaled_dot_product_*attention_overrideable",
}
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Flash(Technique):
    """Switches the workload's explicit attention to `torch.nn.functional.scaled_dot_product_attention`.

    `auto` leaves the backend to torch; `flash`, `efficient` (memory-efficient), `math` and `cudnn` allow one only.
    `flex` is a compiled `torch.nn.attention.flex_attention` with a causal block mask. A backend that cannot run this
    dtype or this model is skipped with the reason: on a GPU `flash` and `cudnn` need bf16 or fp16 (`amp+flash`,
    `--dtype bf16`).

    With `window=N` a token attends to the last N only, itself included. That is another model: losses are not
    comparable, and MFU counts N keys per token. `flex` leaves out what lies outside; the others compute all scores
    with a mask.
    """

    name: ClassVar[str] = "flash"
    summary: ClassVar[str] = "fused attention (scaled_dot_product_attention) instead of explicit attention"
    when: ClassVar[str] = "when sequences are long: the score matrix is never written to memory"
    costs: ClassVar[str] = "scores recomputed in backward; on a GPU most backends need 16 bits"
    paper: ClassVar[str] = (
        "Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness, NeurIPS 2022, "
        "https://arxiv.org/abs/2205.14135; of `flex`: Dong et al., Flex Attention, 2024, "
        "https://arxiv.org/abs/2412.05496; of the window: Beltagy et al., Longformer, 2020, "
        "https://arxiv.org/abs/2004.05150"
    )
    examples: ClassVar[tuple[str, ...]] = (
        "flash",
        "flash:backend=math",
        "flash:backend=efficient",
        "flash:backend=flex",
        "flash:window=64",
        "amp+flash",
    )
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.ATTENTION
    advice: ClassVar[tuple[str, ...]] = ("attention.unfused", "memory.attention_scores", "attention.low_efficiency")
    saves_activations: ClassVar[bool] = True
    planning: ClassVar[Planning] = Planning(
        ESTIMATED, Counted.ALL, (MemorySaving(MemoryPrice.NOTHING, tried=("flash",), searched=("flash",)),)
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict(
            "compile",
            "torch.compile decomposes math attention into the ops of explicit attention, so no check could tell "
            "whether it was active",
            when="backend=math",
        ),
    )
    refusals: ClassVar[Mapping[str, str]] = {
        "derivative for aten::_scaled_dot_product_": (
            "fused attention has no second derivatives, and the step needs them; use backend=math"
        ),
        # What `apply` tries is not compiled: `_ignore_causal_mask_sdpa` of Transformers tells of torch before 2.14.
        "No available kernel.": (
            "this backend cannot run its attention; models of Transformers pass a mask where they are compiled, which "
            "flash and cudnn on a GPU do not take; use backend=auto"
        ),
    }

    backend: Literal["flash", "efficient", "math", "cudnn", "flex", "auto"] = "flash"
    window: Annotated[int, msgspec.Meta(ge=0, description="keys that a token attends to, itself included; 0: all")] = 0

    def unavailable(self, device: torch.device) -> str | None:
        if is_cuda(device) and not torch.cuda.is_available():
            return None  # in a plan there is no device to try it on, and `apply` tries it on the plan's tensors
        reasons = [_probe_backend(self.backend, device, dtype) for dtype in (torch.float32, torch.bfloat16)]
        if None in reasons:
            return None
        why = (
            f": {reasons[0]}" if self.backend == "flex" else ""
        )  # torch reports that none of the other backends is viable
        return f"the {self.backend} attention backend does not run on this {device.type} device{why}"

    def needs_16_bits(self, device: str) -> bool:
        return is_cuda(device) and self.backend in ("flash", "cudnn")

    def compiles(self) -> bool:
        return self.backend == "flex"

    def plannable(self) -> PlanSupport:
        if self.backend != "flex":
            return PlanSupport()
        return PlanSupport(
            PlanMode.NOT, "flex_attention avoids storing scores only in its compiled kernel, which a plan lacks"
        )

    def apply(self, state: TrainState) -> TrainState:
        if state.workload.use_sdpa is None:
            raise UnavailableError(
                f"the workload {state.workload.name} has no attention to switch: it gives no use_sdpa"
            )
        dtype = state.step_dtype or state.compute_dtype
        failure = _probe_backend(self.backend, state.device, _DTYPES.get(dtype, torch.float32))
        if failure is not None:
            raise UnavailableError(f"the {self.backend} attention backend does not run here in {dtype}: {failure}")
        state.workload.use_sdpa(state.model)
        if self.backend in _BACKENDS:
            with BackendProbe(_BACKENDS[self.backend]) as attempts, self._make_attention_context(state.device):
                _run_forward(state)
            if attempts.refused:
                raise UnavailableError(
                    f"the {self.backend} attention backend does not run here {attempts.refused} (use backend=auto)"
                )
            # For the whole process rather than around the forward pass, because checkpointing runs the forward
            # pass again inside backward and must meet the same backend there.
            state.enter(sdpa_kernel(_BACKENDS[self.backend]))
        if self.backend != "auto" or self.window:
            # torch.compile's caches on disk do not know the choice and would hand out code made for another backend.
            tag = f"attention-{self.backend}-{self.window}"
            state.enter(torch.compiler.config.patch(cache_key_tag=tag))  # type: ignore[attr-defined]
        if self.backend == "flex":
            with self._make_attention_context(state.device):  # the first call refuses unsupported cases
                _run_forward(state)
        state.enter(self._make_attention_context(state.device))
        if self.window:
            self._measure_window(state)
        return state

    def _make_attention_context(self, device: torch.device) -> AbstractContextManager[object]:
        """Make a context that runs the model's attention calls differently from torch's default; None if not needed."""
        if self.backend == "flex":
            return replace_attention(make_flex_attention(self.window, compiled=get_accelerator(device).has_triton))
        return replace_attention(make_windowed_attention(self.window)) if self.window else nullcontext()

    def _measure_window(self, state: TrainState) -> None:
        extent = AttentionExtent(self.window)
        with replace_attention(extent.measure_reach):
            _run_forward(state, torch.no_grad())  # the gradients that it measures are of the calls alone
        if not extent.reach:
            raise UnavailableError(
                "a window needs calls of torch.nn.functional.scaled_dot_product_attention by this name, and "
                f"{state.workload.name} makes none"
            )
        if not extent.left_out:
            raise UnavailableError(
                f"a window of {self.window} covers whole sequences of {state.workload.name}; use a shorter "
                "window, or longer sequences"
            )
        state.facts["attention_reach"] = float(extent.reach)
        state.left_out_flops += extent.left_out * state.microbatches

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        nearly_all = partial(
            self._make_claim,
            relation=Relation.AT_LEAST,
            value=1.0,
            relative_to="all_attention_calls",
            whole=True,
            counted="attention calls",
        )
        statement = f"attention runs in torch's fused op ({self.backend})"
        # Calls of the other backends are counted as fused ops where the step runs eagerly.
        claims = [
            nearly_all(f"attention runs in this op of torch ({self.backend})", _CALLS[self.backend])
            if self.backend in ("math", "flex")
            else self._make_claim(statement, _CALLS[self.backend], Relation.AT_LEAST, 1.0)
        ]
        if self.backend != "math":
            claims.append(nearly_all("attention calls run in fused ops", "fused_attention_calls"))
        if not self.window:
            return tuple(claims)
        reach = self._make_claim(
            "a query attends to the window's keys", "attention_reach", Relation.EQUAL, float(self.window)
        )
        return (*claims, reach)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {OTHER: math.inf} if self.window else {}  # a mask of each length

    def parity(self) -> ParityRule:
        if self.window:
            return ParityRule(relative=None, basis="a sliding window changes the model")
        return LOSSLESS


def _run_forward(state: TrainState, keeping: AbstractContextManager[object] | None = None) -> None:
    """One forward pass as the model makes it, which other arguments than the probe's may rule out for a backend.

    Nothing is kept for backward: the unmodified model's activations may not fit. `keeping` is another way to that.
    """
    with draw_trial_microbatch(state) as batch, autocast_to_step(state):
        if state.workload.step is not None:
            run_trial_step(state, batch)
            return
        with keeping or discard_saved_tensors(), state.enter_forward_contexts():
            call_loss(state.workload, state.model, batch)


def _probe_backend(backend: str, device: torch.device, dtype: torch.dtype) -> str | None:
    """Run attention forward and backward once; the reason if this backend refuses, None if it works."""
    if backend == "auto":
        return None
    if backend == "flex" and is_cpu(device):  # op by op torch 2.9 runs it all the same
        return "the compiled kernel has no backward pass on a CPU"
    query = torch.zeros(1, 1, 64, 64, device=device, dtype=dtype, requires_grad=True)
    if backend == "flex":
        route: AbstractContextManager[object] = replace_attention(make_flex_attention(0, compiled=False))
    else:
        route = sdpa_kernel(_BACKENDS[backend])
    try:
        with route:
            F.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None
