"""`inplace`: activation functions and dropout write over their input."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.planning import Counted, NoEffect, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Stage, Technique

# What has an `inplace` switch, and the op that then runs.
_OPS: dict[type[nn.Module], str] = {
    nn.ReLU: "aten::relu_",
    nn.ReLU6: "aten::hardtanh_",
    nn.LeakyReLU: "aten::leaky_relu_",
    nn.ELU: "aten::elu_",
    nn.SELU: "aten::selu_",
    nn.CELU: "aten::celu_",
    nn.SiLU: "aten::silu_",
    nn.Mish: "aten::mish_",
    nn.Hardswish: "aten::hardswish_",
    nn.Dropout: "aten::dropout_",
}


class Inplace(Technique):
    """Switches `inplace` on in the modules that have it (`nn.ReLU(inplace=True)`): ReLU and similar, SiLU, dropout.

    Autograd keeps the result of a ReLU in any case, so it saves less only if the input was saved too. The peak shrinks
    by an input that no longer exists together with its result. torch refuses a model that needs the input in backward,
    which is skipped. torch does not detect that a forward pass uses the input again (`relu(x) + x`): such a model
    computes something else, which its losses show.
    """

    name: ClassVar[str] = "inplace"
    summary: ClassVar[str] = "activation functions and dropout overwrite their input"
    when: ClassVar[str] = (
        "when activation functions follow convolutions or norms, whose backward does not need their output"
    )
    costs: ClassVar[str] = "nothing where torch allows it; the input is lost"
    paper: ClassVar[str] = (
        "Rota Bulo et al., In-Place Activated BatchNorm for Memory-Optimized Training of DNNs, CVPR 2018, "
        "https://arxiv.org/abs/1712.02616 (which goes further); torch.nn.ReLU, "
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.ReLU.html"
    )
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    purpose_place: ClassVar[int] = 1
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(NoEffect("saves memory only: an in-place op takes as long"), Counted.STATES)
    refusals: ClassVar[Mapping[str, str]] = {
        "has been modified by an inplace operation": (
            "backward needs a tensor that an activation function has overwritten"
        ),
        "is a view and is being modified inplace": "an activation function would overwrite one of several views (GLU)",
    }

    def apply(self, state: TrainState) -> TrainState:
        modules = list(_find_switchable_modules(state.model))
        if not modules:
            raise UnavailableError(
                f"the workload {state.workload.name} has no module with an inplace option, such as nn.ReLU"
            )
        for module in modules:
            setattr(module, "inplace", True)  # noqa: B010 - nn.Module declares no such attribute
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        modules = list(_find_switchable_modules(state.model))
        ops = sorted({_OPS[type(module)] for module in modules}) or sorted(_OPS.values())
        return (
            Claim(
                technique=self.name,
                statement="the modules work in place",
                fact=f"op_calls:{','.join(ops)}",
                relation=Relation.AT_LEAST,
                value=float(max(len(modules), 1)),
            ),
        )


def _find_switchable_modules(model: nn.Module) -> Iterator[nn.Module]:
    """Of dropout, those that drop anything."""
    for module in model.modules():
        if type(module) in _OPS and getattr(module, "p", 1.0) > 0:
            yield module
