"""`flash`: fused attention. The workload's explicit attention is switched to torch's, run by one of its backends."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from perfkit.errors import UnavailableError
from perfkit.record import Claim, Relation
from perfkit.techniques.own_step import rehearse
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique
from perfkit.techniques.trial import trial_batch

_BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "math": SDPBackend.MATH,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
_OPS = {
    "flash": "aten::_scaled_dot_product_flash_attention,aten::_scaled_dot_product_flash_attention_for_cpu",
    "efficient": "aten::_scaled_dot_product_efficient_attention",
    "math": "aten::_scaled_dot_product_attention_math",
    "cudnn": "aten::_scaled_dot_product_cudnn_attention",
    "auto": "aten::scaled_dot_product_attention,aten::_scaled_dot_product_*attention,"
    "aten::_scaled_dot_product_flash_attention_for_cpu",
}
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Flash(Technique):
    """Switches the workload's explicit attention to `torch.nn.functional.scaled_dot_product_attention`.

    `auto` leaves the choice of the backend to torch; the others allow one only. Whether it exists is found out by
    running it once in the dtype at hand, and then as the model calls it, in one forward pass: `flash` on a CPU knows no
    dropout, and a variant whose attention has some is skipped with that reason. On a GPU `flash` and `cudnn` run in
    bf16 and fp16 only: use `amp+flash` or `--dtype bf16`; in fp32 they are skipped before anything is started.
    `efficient` runs in fp32, too.

    The choice holds for the whole process, not only for the forward pass, because checkpointing runs the forward pass
    again inside backward and would meet another backend there. It is also part of the key of torch.compile's caches on
    disk, which would otherwise hand out code made for another backend.

    The backend's own op must be called, or its kernel replayed. On AMD `flash` and `efficient` share their kernels, so
    that under CUDA graphs only `auto` can be told.
    """

    name: ClassVar[str] = "flash"
    summary: ClassVar[str] = "fused attention (scaled_dot_product_attention) instead of explicit attention"
    when: ClassVar[str] = "where sequences are long: the matrix of scores is never written to memory"
    costs: ClassVar[str] = "the scores are computed again in backward; on a GPU most backends run in 16 bits only"
    paper: ClassVar[str] = (
        "Dao et al., FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness, NeurIPS 2022, "
        "https://arxiv.org/abs/2205.14135"
    )
    examples: ClassVar[tuple[str, ...]] = ("flash", "flash:backend=math", "flash:backend=efficient", "amp+flash")
    stage: ClassVar[Stage] = Stage.MODEL
    refusals: ClassVar[Mapping[str, str]] = {
        "derivative for aten::_scaled_dot_product_": "fused attention has no second derivative, and the step "
        "differentiates a gradient; use backend=math"
    }

    backend: Literal["flash", "efficient", "math", "cudnn", "auto"] = "flash"

    def unavailable(self, device: torch.device) -> str | None:
        if any(_probe(self.backend, device, dtype) is None for dtype in (torch.float32, torch.bfloat16)):
            return None
        return f"the {self.backend} attention backend does not run on this {device.type} device"

    def needs_16_bits(self, device: str) -> bool:
        return device == "cuda" and self.backend in ("flash", "cudnn")

    def apply(self, state: TrainState) -> TrainState:
        if state.workload.use_sdpa is None:
            raise UnavailableError(f"the workload {state.workload.name} has no attention to switch")
        failure = _probe(self.backend, state.device, _DTYPES.get(state.compute_dtype, torch.float32))
        if failure is not None:
            raise UnavailableError(
                f"the {self.backend} attention backend does not run here in {state.compute_dtype}: {failure}"
            )
        state.workload.use_sdpa(state.model)
        if self.backend != "auto":
            refused = _refused_by_the_model(self.backend, state)
            if refused is not None:
                raise UnavailableError(f"the {self.backend} attention backend does not run here {refused}")
            # For the whole process rather than around the forward pass, because checkpointing runs the forward
            # pass again inside backward and must meet the same backend there.
            state.enter(sdpa_kernel(_BACKENDS[self.backend]))
            # torch.compile's caches on disk do not know the choice and would hand out code made for another backend.
            state.enter(torch.compiler.config.patch(cache_key_tag=f"attention-{self.backend}"))  # type: ignore[attr-defined]
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            Claim(
                technique=self.name,
                statement=f"attention runs in torch's fused op ({self.backend})",
                fact=f"op_calls:{_OPS[self.backend]}",
                relation=Relation.AT_LEAST,
                value=1.0,
            ),
        )


class _Attempts(TorchFunctionMode):
    """Attention as the model calls it, which other arguments than the probe's may rule out for a backend."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.refused: str | None = None
        self._backend = backend

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if func is F.scaled_dot_product_attention and self.refused is None:
            try:
                with sdpa_kernel(_BACKENDS[self._backend]):
                    return func(*args, **given)
            except RuntimeError as error:
                self.refused = f"{_arguments(args, given)}: {str(error).splitlines()[0]}"
        return func(*args, **given)


def _refused_by_the_model(backend: str, state: TrainState) -> str | None:
    """With what arguments the model's own attention is refused by a backend, and why; None where it is not."""
    attempts = _Attempts(backend)
    with trial_batch(state) as batch, attempts:
        if state.workload.step is None:
            state.loss(batch)
        else:
            rehearse(state, batch)
    return attempts.refused


def _arguments(args: tuple[Any, ...], given: dict[str, Any]) -> str:
    """What of a call a backend may not know, in words: `with dropout 0.1 and a mask`."""
    mask = args[3] if len(args) > 3 else given.get("attn_mask")
    dropout = args[4] if len(args) > 4 else given.get("dropout_p", 0.0)
    parts = [f"dropout {dropout:g}"] if dropout else []
    parts += ["a mask"] if mask is not None else []
    return f"with {' and '.join(parts)}" if parts else f"for queries of {tuple(args[0].shape)}"


def _probe(backend: str, device: torch.device, dtype: torch.dtype) -> str | None:
    """Run attention forward and backward once; the reason if this backend refuses, None if it works."""
    if backend == "auto":
        return None
    query = torch.zeros(1, 1, 64, 64, device=device, dtype=dtype, requires_grad=True)
    try:
        with sdpa_kernel(_BACKENDS[backend]):
            F.scaled_dot_product_attention(query, query, query, is_causal=True).sum().backward()
    except RuntimeError as error:
        return str(error).splitlines()[0]
    return None
