"""`fp8`: products of linear layers with operands of 8 bits."""

from typing import ClassVar

import torch

from perfkit.devices.capability import get_fp8_format
from perfkit.record import Claim, ParityRule, Relation
from perfkit.techniques.linear_layers import find_divisible_layers
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Package, Stage, Technique

_MULTIPLE = 16  # of both dimensions of an fp8 operand (torch._scaled_mm)
_LAYERS = "float8_layers"
# Of each layer's three products: a layer whose input comes from the data needs no gradient of it.
_PRODUCTS, _OPERANDS = 2, 2
_ROUNDINGS = 8  # as `amp`
_EPS = 2.0**-3  # of e4m3, which has 3 bits of mantissa


class Fp8(Technique):
    """Training with fp8 products by torchao (`convert_to_float8_training`, a scale for each tensor, found anew).

    The operands of the three products of a linear layer are rounded to 8 bits as they are needed: weights and inputs to
    e4m3, gradients of the output to e5m2. Weights, gradients and optimizer state stay as they are. It is for the linear
    layers within the blocks (of the whole model where none are known) whose sizes are multiples of 16;
    `nn.MultiheadAttention` stays as it is. To be faster it needs large products and `fp8+compile`, which fuses the
    rounding with what is around it.

    A GPU without units for fp8 is refused: NVIDIA's have them since compute capability 8.9, AMD's since MI300 (gfx942),
    which rounds to e4m3fnuz and e5m2fnuz. On a CPU the products are **emulated**: operands are rounded to fp8 and
    multiplied in fp32. Its losses are those of fp8; of its time and memory nothing is compared with the baseline's.

    On a GPU each layer must call the scaled product twice a step at least (the first of a model needs no gradient of
    its input, others call it three times); emulated, it must round the operands of as many. Compiled code on a CPU does
    not show that. Losses may differ by 8 roundings to e4m3. On an H200 it ran: claims hold, losses within it.
    """

    name: ClassVar[str] = "fp8"
    summary: ClassVar[str] = "linear layers multiply in fp8, with a scale per tensor"
    when: ClassVar[str] = "when large matmuls dominate a compiled step, on a GPU with fp8 units"
    costs: ClassVar[str] = "3 bits of mantissa in matmuls, and rounding of each operand; slower for small layers"
    paper: ClassVar[str] = "Micikevicius et al., FP8 Formats for Deep Learning, 2022, https://arxiv.org/abs/2209.05433"
    stage: ClassVar[Stage] = Stage.MODEL

    def package(self) -> Package | None:
        return Package("torchao", "torchao")

    def unavailable(self, device: torch.device) -> str | None:
        if device.type != "cuda":
            return None
        amd, capability = torch.version.hip is not None, torch.cuda.get_device_capability(device)
        if get_fp8_format(capability, amd=amd) is not None:
            return None
        version = ".".join(map(str, capability))
        if amd:
            return (
                f"fp8 matmuls need an AMD GPU with fp8 matrix units, MI300 (gfx942) or later; this one is gfx {version}"
            )
        return f"fp8 matmuls need an NVIDIA GPU of compute capability 8.9 or more; this one has {version}"

    def emulated(self, device: torch.device) -> str:
        return "" if device.type == "cuda" else f"a {device.type} device has no fp8 matmuls; they are computed in fp32"

    def apply(self, state: TrainState) -> TrainState:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        chosen = find_divisible_layers(state, inputs=_MULTIPLE, outputs=_MULTIPLE)
        config = Float8LinearConfig(emulate=bool(self.emulated(state.acts_on)))
        convert_to_float8_training(state.model, module_filter_fn=lambda _module, name: name in chosen, config=config)
        state.facts[_LAYERS] = float(len(chosen))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.emulated(state.acts_on):
            statement, op, calls = "operands are rounded to fp8", "_ToFloat8ConstrFunc", _PRODUCTS * _OPERANDS
        else:
            statement, op, calls = "layers multiply in fp8", "aten::_scaled_mm*", _PRODUCTS
        return (self._make_claim(statement, f"op_calls:{op}", Relation.AT_LEAST, float(calls), _LAYERS),)

    def parity(self) -> ParityRule:
        return ParityRule(relative=_ROUNDINGS * _EPS, basis=f"{_ROUNDINGS} roundings to e4m3")
