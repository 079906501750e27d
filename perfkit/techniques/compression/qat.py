"""`qat`: quantization-aware training. Linear layers compute with weights and inputs rounded to integers."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch

from perfkit.core.allocations import OTHER
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import SAME_LAYERS, Conflict, make_conflicts
from perfkit.techniques.base.linear_layers import find_divisible_layers
from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

_GROUP = 32  # weights of an output that share a scale
_LAYERS = "fake_quantized_layers"


class Qat(Technique):
    """Quantization-aware training by torchao (`QATConfig`, the step "prepare").

    In every forward pass the weights and inputs of the linear layers within the blocks (else of the whole model,
    without `nn.MultiheadAttention`) are rounded to integers and back: inputs to 8 bits with a scale per token, weights
    with a scale per 32 (`weights=int4`) or per output (`weights=int8`). Gradients pass straight through and update the
    weights in full precision. Training gets slower; the gain is the accuracy of the quantized model, which is not
    measured here.
    """

    name: ClassVar[str] = "qat"
    summary: ClassVar[str] = "quantization-aware training: linear layers' weights and inputs rounded to integers"
    when: ClassVar[str] = "to find the training cost of a model to be served in 4 or 8 bits"
    costs: ClassVar[str] = "time and memory to round each linear layer's weight and input in every step"
    paper: ClassVar[str] = (
        "Jacob et al., Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference, "
        "CVPR 2018, https://arxiv.org/abs/1712.05877"
    )
    examples: ClassVar[tuple[str, ...]] = ("qat", "qat:weights=int8")
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.COMPRESSION
    purpose_place: ClassVar[int] = 1
    planning: ClassVar[Planning] = Planning(UnknownEffect("rounding overhead not modeled; no time saved"))
    conflicts: ClassVar[tuple[Conflict, ...]] = make_conflicts(("qlora", "sparse24"), SAME_LAYERS)

    weights: Literal["int4", "int8"] = "int4"

    def package(self) -> Package | None:
        return TORCHAO

    def apply(self, state: TrainState) -> TrainState:
        from torchao.quantization import quantize_
        from torchao.quantization.qat import QATConfig

        chosen = find_divisible_layers(state, inputs=_GROUP if self.weights == "int4" else 1)
        inputs, weights = _build_rounding_configs(self.weights)
        config = QATConfig(activation_config=inputs, weight_config=weights, step="prepare")
        quantize_(state.model, config, filter_fn=lambda _module, name: name in chosen)
        state.facts[_LAYERS] = float(len(chosen))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        scales = "op_calls:torchao::choose_qparams_affine*"
        statement = "layers ask for the scales of their weight and input"
        return (self._make_claim(statement, scales, Relation.AT_LEAST, 2.0, _LAYERS),)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {OTHER: math.inf}  # torchao keeps the last scales of activations and weights

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis=f"a model with weights in {self.weights} and int8 inputs is trained")


def _build_rounding_configs(weights: str) -> tuple[Any, Any]:
    """Build torchao's rounding configurations of inputs and weights."""
    from torchao.quantization.qat import IntxFakeQuantizeConfig

    inputs = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    if weights == "int8":
        return inputs, IntxFakeQuantizeConfig(torch.int8, "per_channel")
    return inputs, IntxFakeQuantizeConfig(torch.int4, group_size=_GROUP)  # type: ignore[attr-defined]
