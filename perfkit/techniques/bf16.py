"""`bf16`: parameters, gradients and optimizer state in bf16, with Kahan summation of the updates."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from perfkit.errors import UnavailableError
from perfkit.record import Claim, ParityRule, Relation
from perfkit.spec import BASELINE
from perfkit.techniques.optimizer_state import Group, expected_bytes
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Package, Stage, Technique

_ROUNDINGS = 8  # as `amp`


class Bf16(Technique):
    """Everything is in bf16: parameters, activations, gradients and optimizer state. There is no copy in fp32.

    bf16 has 8 bits of mantissa, so that an update of less than 1/256 of a parameter is rounded away. With
    `update=kahan` what is lost is kept in one more number a parameter and added to the next update (Kahan summation),
    by the optimizers of torch-optimi in place of torch's: Adam, AdamW and SGD, with the same hyperparameters.
    `update=nearest` is the workload's own optimizer, and loses it.

    Parameters must take half of the unmodified model's bytes, and products have bf16 operands. Optimizer state must be,
    with `kahan`, 3 numbers of bf16 a parameter for Adam (6 bytes in place of 8) and 2 for SGD with momentum; with
    `nearest` half of the baseline's bytes.
    """

    name: ClassVar[str] = "bf16"
    summary: ClassVar[str] = "parameters, gradients and optimizer state in bf16, updates with Kahan summation"
    when: ClassVar[str] = "where parameters and optimizer state fill the memory"
    costs: ClassVar[str] = "8 bits of mantissa everywhere; Kahan summation takes 2 bytes a parameter"
    paper: ClassVar[str] = (
        "Zamirai et al., Revisiting BFloat16 Training, 2020, https://arxiv.org/abs/2010.06192; "
        "optimi, https://optimi.benjaminwarner.dev"
    )
    examples: ClassVar[tuple[str, ...]] = ("bf16", "bf16:update=nearest")
    stage: ClassVar[Stage] = Stage.MODEL

    update: Literal["kahan", "nearest"] = "kahan"

    def package(self) -> Package | None:
        return Package("optimi", "torch-optimi") if self.update == "kahan" else None

    def computes_in(self, dtype: str) -> str:
        return "bf16"

    def apply(self, state: TrainState) -> TrainState:
        if state.compute_dtype == "bf16":
            raise UnavailableError("the parameters are bf16 already")
        for model in state.models.values():
            model.bfloat16()  # `to` would take the imaginary part off complex buffers
            model.register_forward_pre_hook(_in_bf16, with_kwargs=True)
        state.compute_dtype = "bf16"
        if self.update == "kahan":
            state.optimizer_changes.append(_with_kahan)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            Claim(
                technique=self.name,
                statement="parameters take half of the bytes",
                fact="parameter_bytes",
                relation=Relation.AT_MOST,
                value=0.51,
                relative_to="reference_parameter_bytes",
            ),
            Claim(
                technique=self.name,
                statement="products take bf16 operands",
                fact="matmul_flops_share:bf16",
                relation=Relation.AT_LEAST,
                value=0.9,
            ),
            *self._state_claims(state),
        )

    def _state_claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.update == "kahan":
            return (
                Claim(
                    technique=self.name,
                    statement="optimizer state is so many numbers in bf16",
                    fact="optimizer_state_bytes",
                    relation=Relation.EQUAL,
                    value=expected_bytes(state.optimizers.values(), _with_compensation),
                    tolerance=0.05,  # the optimizer's scalars
                ),
            )
        if "optim" in state.applied:
            return ()  # that optimizer's state is its own claim, and some keep it in fp32
        return (
            Claim(
                technique=self.name,
                statement="optimizer state takes half of the bytes",
                fact="optimizer_state_bytes",
                relation=Relation.AT_MOST,
                value=0.51,
                relative_to=BASELINE,
            ),
        )

    def parity(self) -> ParityRule:
        eps = torch.finfo(torch.bfloat16).eps
        return ParityRule(relative=_ROUNDINGS * eps, basis=f"{_ROUNDINGS} roundings of bf16 parameters")


def _in_bf16(
    _model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return tuple(map(_cast, args)), {name: _cast(value) for name, value in kwargs.items()}


def _cast(value: Any) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.bfloat16) if floating else value


def _with_compensation(parameter: torch.Tensor, group: Group) -> float:
    """Bytes of Adam's two moments or SGD's momentum, and of what the last update lost."""
    moments = 2 if "betas" in group or "beta1" in group else int(group["momentum"] != 0)
    return float((moments + 1) * parameter.numel() * torch.bfloat16.itemsize)


def _with_kahan(optimizer: Optimizer) -> Optimizer:
    """optimi's optimizer of the same method and hyperparameters; `UnavailableError` for another method."""
    import optimi

    made: dict[type[Optimizer], tuple[Callable[..., Optimizer], Callable[[dict[str, Any]], dict[str, Any]]]] = {
        AdamW: (optimi.AdamW, _adam),
        Adam: (optimi.Adam, _adam),
        SGD: (optimi.SGD, _sgd),
    }
    if type(optimizer) not in made:
        raise UnavailableError(
            f"Kahan summation is there for Adam, AdamW and SGD, and the workload has {type(optimizer).__name__}: "
            "use bf16:update=nearest"
        )
    options = ("amsgrad", "maximize", "nesterov", "dampening")
    unknown = [name for name in options if any(group.get(name) for group in optimizer.param_groups)]
    if unknown:
        raise UnavailableError(f"optimi's optimizers have no {' and '.join(unknown)}: use bf16:update=nearest")
    build, settings = made[type(optimizer)]
    groups = [{"params": group["params"], **settings(group)} for group in optimizer.param_groups]
    return build(groups, lr=optimizer.defaults["lr"], kahan_sum=True)


def _adam(group: dict[str, Any]) -> dict[str, Any]:
    beta1, beta2 = group["betas"]
    shared = {name: group[name] for name in ("lr", "eps", "weight_decay")}
    return {**shared, "beta1": beta1, "beta2": beta2, "decouple_wd": group["decoupled_weight_decay"]}


def _sgd(group: dict[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in ("lr", "momentum", "weight_decay")}
