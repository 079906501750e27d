"""`compress`: what autograd saves for backward is kept in 8 bits, or fewer where it is mostly zeros (Gist)."""

from contextlib import AbstractContextManager
from typing import ClassVar

import torch

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.activations.paged_activations import ActivationPager
from perfkit.techniques.activations.quantized_store import QuantizedStore, RoundingError
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.planning import Counted, Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_ROUNDINGS = 8
_EPS = 2.0**-7  # of 8 bits, one of them the sign
# Of the unmodified model's bytes. With the scales 0.254 of fp32 is possible, and of 16 bits 0.508.
_AT_MOST_OF_FP32, _AT_MOST_OF_16_BITS = 0.5, 0.75


class Compress(Technique):
    """Rounds every floating tensor that autograd saves to 8 bits, and restores it when backward asks for it.

    The forward pass computes with whole tensors, so the first loss is the baseline's. Values share a scale in blocks
    of 256. Where at least an eighth are zero, as behind ReLU, a bit for each says which, and only the others keep 8
    bits. Parameters, integers (indices of max pooling), small tensors and what `ckpt` recomputes stay.

    Saved bytes can fall to a quarter from fp32, a half from 16 bits. The rounding error (`compression_error`: root
    mean square, relative to the activations') must be at most 2 %.
    """

    name: ClassVar[str] = "compress"
    summary: ClassVar[str] = "saved activations in 8 bits, or fewer where many are zero"
    when: ClassVar[str] = "when activations fill the memory and recomputation is too slow"
    costs: ClassVar[str] = "one quantization and dequantization of each per step; gradients from rounded activations"
    paper: ClassVar[str] = (
        "Jain et al., Gist: Efficient Data Encoding for Deep Neural Network Training, ISCA 2018, "
        "https://doi.org/10.1109/ISCA.2018.00070"
    )
    stage: ClassVar[Stage] = Stage.OPTIMIZER  # around all that changes modules
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    planning: ClassVar[Planning] = Planning(UnknownEffect("time to round saved tensors"), Counted.STATES)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("offload:what=activations", "both replace autograd's saved tensors, which supports only one of them"),
    )

    def apply(self, state: TrainState) -> TrainState:
        error = RoundingError()
        stores = {dtype: QuantizedStore(dtype, error) for dtype in _DTYPES}
        pager = ActivationPager(stores.get, state.device)

        def hooks() -> AbstractContextManager[object]:
            if error.open and error.total > 0:  # a forward pass without gradients saves nothing
                error.open = False
                state.facts["compression_error"] = error.relative
            return pager.make_hooks()

        state.forward_contexts.append(hooks)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if "bf16" in state.applied:  # the unmodified model is in fp32, and half of its bytes are bf16's
            most = _AT_MOST_OF_16_BITS / 2
        else:
            in_fp32 = any(p.dtype == torch.float32 for p in state.model.parameters())
            most = _AT_MOST_OF_FP32 if in_fp32 else _AT_MOST_OF_16_BITS
        saved, reference = "saved_tensor_bytes", "reference_saved_tensor_bytes"
        return (
            self._make_claim("saved activations take fewer bytes", saved, Relation.AT_MOST, most, reference),
            self._make_claim("rounding loses little", "compression_error", Relation.AT_MOST, 0.02),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=_ROUNDINGS * _EPS, basis=f"{_ROUNDINGS} roundings to 8 bits")
