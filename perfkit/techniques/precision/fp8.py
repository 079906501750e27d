"""`fp8`: products of linear layers with operands of 8 bits."""

from typing import ClassVar

import torch

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import is_cuda
from perfkit.devices.catalog.capability import get_fp8_format
from perfkit.techniques.base.conflict import SAME_LAYERS, Conflict, make_conflicts
from perfkit.techniques.base.linear_layers import find_divisible_layers
from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.base.planning import ESTIMATED, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

_MULTIPLE = 16  # of both dimensions of an fp8 operand (torch._scaled_mm)
_LAYERS = "float8_layers"
# Of each layer's three matmuls: a layer whose input comes from the data needs no gradient of it.
_PRODUCTS, _OPERANDS = 2, 2
_ROUNDINGS = 8  # as `amp`
_EPS = 2.0**-3  # of e4m3, which has 3 bits of mantissa


class Fp8(Technique):
    """Training with fp8 matmuls by torchao (`convert_to_float8_training`, a dynamic scale per tensor).

    Operands of a linear layer's three matmuls are rounded to 8 bits: weights and inputs to e4m3, gradients of the
    output to e5m2. Weights, gradients and optimizer state stay. It acts on linear layers within the blocks (else of
    the whole model) whose sizes are multiples of 16, except in `nn.MultiheadAttention`. To be faster it needs large
    matmuls and `fp8+compile`, which fuses the rounding.

    A GPU without fp8 units is refused: NVIDIA's have them since compute capability 8.9, AMD's since MI300 (gfx942). On
    a CPU the matmuls are **emulated**: losses are those of fp8, time and memory are not compared. On an H200 all
    claims held.
    """

    name: ClassVar[str] = "fp8"
    summary: ClassVar[str] = "linear layers multiply in fp8, with a scale per tensor"
    when: ClassVar[str] = "when large matmuls dominate a compiled step, on a GPU with fp8 units"
    costs: ClassVar[str] = "3 bits of mantissa in matmuls, and rounding of each operand; slower for small layers"
    paper: ClassVar[str] = "Micikevicius et al., FP8 Formats for Deep Learning, 2022, https://arxiv.org/abs/2209.05433"
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.PRECISION
    purpose_place: ClassVar[int] = 3
    planning: ClassVar[Planning] = Planning(ESTIMATED)
    conflicts: ClassVar[tuple[Conflict, ...]] = make_conflicts(("qat", "qlora", "sparse24"), SAME_LAYERS)

    def package(self) -> Package | None:
        return TORCHAO

    def unavailable(self, device: torch.device) -> str | None:
        if not is_cuda(device):
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
        return "" if is_cuda(device) else f"a {device.type} device has no fp8 matmuls; they are computed in fp32"

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
