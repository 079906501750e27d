"""`channels_last`: images and convolution weights are stored channels-last (NHWC)."""

import math
from typing import Any, ClassVar

import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import FULLY_SHARDED, Conflict, make_conflicts
from perfkit.techniques.base.planning import ESTIMATED, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

# Other kernels add up a convolution's products in another order. The errors of a sum of n products are independent, so
# that it is off by the root of n roundings; the widest of ResNet's convolutions have 3 x 3 x 512 products a value.
_PRODUCTS = 3 * 3 * 512
_SUMS = 8  # the same allowance as `amp`


class ChannelsLast(Technique):
    """Stores weights of 2-d convolutions and the model's images channels-last (`torch.channels_last`).

    Shapes stay, and later ops keep the layout. Matrix units and oneDNN multiply in it; from the other layout they
    convert, or use slower kernels. Under `compile`, which chooses layouts itself, the effect is unknown.
    """

    name: ClassVar[str] = "channels_last"
    summary: ClassVar[str] = "images and convolution weights stored channels-last (NHWC)"
    when: ClassVar[str] = "when 2-d convolutions dominate the step, above all in 16 bits on a GPU"
    costs: ClassVar[str] = "layers without support for the layout copy their input"
    paper: ClassVar[str] = (
        "PyTorch, Channels Last Memory Format, "
        "https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html"
    )
    stage: ClassVar[Stage] = Stage.MODEL
    advice: ClassVar[tuple[str, ...]] = ("convolution.transposes", "batch_norm.layout", "convolution.low_efficiency")
    purpose: ClassVar[Purpose] = Purpose.COMPILATION
    purpose_place: ClassVar[int] = 1
    planning: ClassVar[Planning] = Planning(ESTIMATED, Counted.STATES)
    conflicts: ClassVar[tuple[Conflict, ...]] = make_conflicts(FULLY_SHARDED, "FSDP2 shards contiguous parameters only")

    def apply(self, state: TrainState) -> TrainState:
        if not any(isinstance(module, nn.Conv2d) for module in state.model.modules()):
            raise UnavailableError(f"the workload {state.workload.name} has no 2-d convolutions")
        for model in state.models.values():
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            model.register_forward_pre_hook(_convert_inputs, with_kwargs=True)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            Claim(
                technique=self.name,
                statement="every convolution's output is channels-last",
                fact="channels_last_convolutions",
                relation=Relation.AT_LEAST,
                value=1.0,
                relative_to="convolutions",
            ),
        )

    def parity(self) -> ParityRule:
        relative = _SUMS * math.sqrt(_PRODUCTS) * torch.finfo(torch.float32).eps
        return ParityRule(relative=relative, basis=f"{_SUMS} sums of {_PRODUCTS} fp32 products in another order")


def _convert_inputs(
    _model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_convert_images, args)), {name: _convert_images(value) for name, value in kwargs.items()}


def _convert_images(value: Any) -> Any:
    is_images = isinstance(value, torch.Tensor) and value.dim() == 4
    return value.contiguous(memory_format=torch.channels_last) if is_images else value
