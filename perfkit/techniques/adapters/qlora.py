"""`qlora`: low-rank adapters for frozen linear layers with 4-bit weights."""

from importlib.util import find_spec
from typing import ClassVar

import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.core.optional_deps import make_missing_package_error
from perfkit.core.record.claim import Claim, Relation
from perfkit.techniques.adapters.adapters import Adapters, find_adaptable_layers
from perfkit.techniques.adapters.lora import Lora
from perfkit.techniques.base.conflict import SAME_LAYERS, Conflict
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose


class Qlora(Lora):
    """LoRA ([lora](lora.md)) over weights in 4 bits, by bitsandbytes and peft.

    The adapted layers' frozen weights are rounded to NormalFloat (NF4) with double quantization: 0.516 bytes a weight,
    scales included. Each matmul first dequantizes its weight. Norms, embeddings and the output layer stay as they are.
    """

    name: ClassVar[str] = "qlora"
    summary: ClassVar[str] = "QLoRA: low-rank adapters are trained on linear layers frozen in 4 bits (NF4)"
    when: ClassVar[str] = "to fine-tune a model whose weights alone fill the memory"
    costs: ClassVar[str] = "weights unpacked for every matmul; rounding to 4 bits"
    purpose: ClassVar[Purpose] = Purpose.FINE_TUNING
    planning: ClassVar[Planning] = Planning(UnknownEffect("time to unpack 4-bit weights"))
    conflicts: ClassVar[tuple[Conflict, ...]] = (Conflict("sparse24", SAME_LAYERS),)
    paper: ClassVar[str] = (
        "Dettmers et al., QLoRA: Efficient Finetuning of Quantized LLMs, NeurIPS 2023, https://arxiv.org/abs/2305.14314"
    )

    def package(self) -> Package | None:
        return Package("bitsandbytes", "bitsandbytes")

    def unavailable(self, device: torch.device) -> str | None:
        return None if find_spec("peft") else str(make_missing_package_error("peft", "peft"))

    def apply(self, state: TrainState) -> TrainState:
        from transformers.pytorch_utils import Conv1D

        layers = find_adaptable_layers(state, self.targets)
        for name, layer in layers.items():
            if isinstance(layer, Conv1D):
                raise UnavailableError(f"{name} is a Conv1D of Transformers, which bitsandbytes does not quantize")
            state.model.set_submodule(name, _quantize_layer(layer, state.device))
            layer.to("meta")  # of which the shapes are needed
        Adapters(state, layers, self.rank, self.alpha)
        state.facts["weights_in_4_bits"] = float(sum(layer.weight.numel() for layer in layers.values()))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        half_a_byte = self._make_claim(
            "frozen weights take half a byte each", "parameter_bytes:uint8", Relation.EQUAL, 0.5, "weights_in_4_bits"
        )
        return (*super().claims(state), half_a_byte)


def _quantize_layer(layer: nn.Linear, device: torch.device) -> nn.Module:
    """The same layer with its weight rounded.

    Products are of its dtype, to which a backward pass unpacks the weight.
    """
    from bitsandbytes.functional import quantize_4bit
    from bitsandbytes.nn import Linear4bit, Params4bit

    packed, scales = quantize_4bit(layer.weight.detach().to(device), compress_statistics=True, quant_type="nf4")
    rounded: nn.Module = Linear4bit(
        layer.in_features, layer.out_features, layer.bias is not None, quant_type="nf4", device="meta"
    )
    rounded.weight = Params4bit(packed, quant_type="nf4", quant_state=scales, module=rounded, bnb_quantized=True)
    rounded.quant_state = scales
    rounded.bias = layer.bias
    return rounded
