"""Optimizers of parameters in bf16 whose small updates are not lost to rounding."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from perfkit.errors import UnavailableError
from perfkit.techniques.optimizer_state import Group, two_moments
from perfkit.techniques.technique import Package


class Update(NamedTuple):
    """How small updates are kept.

    Attributes:
        optimizer: in place of a workload's own, of the same method and hyperparameters; raises `UnavailableError` for
            another method.
        state: the bytes of state of a parameter.
        package: what it comes from.
    """

    optimizer: Callable[[Optimizer], Optimizer]
    state: Callable[[Tensor, Group], float]
    package: Package


def with_compensation(parameter: Tensor, group: Group) -> float:
    """Bytes of Adam's two moments or SGD's momentum, and of what the last update lost."""
    moments = 2 if "betas" in group or "beta1" in group else int(group["momentum"] != 0)
    return float((moments + 1) * parameter.numel() * torch.bfloat16.itemsize)


def with_kahan(optimizer: Optimizer) -> Optimizer:
    """optimi's, with Kahan summation."""
    import optimi

    made: dict[type[Optimizer], tuple[Callable[..., Optimizer], Callable[[dict[str, Any]], dict[str, Any]]]] = {
        AdamW: (optimi.AdamW, _adam),
        Adam: (optimi.Adam, _adam),
        SGD: (optimi.SGD, _sgd),
    }
    if type(optimizer) not in made:
        raise _no_such("Kahan summation is there for Adam, AdamW and SGD", optimizer)
    _refuse(optimizer, "optimi's optimizers have", ("amsgrad", "maximize", "nesterov", "dampening"))
    build, settings = made[type(optimizer)]
    groups = [{"params": group["params"], **settings(group)} for group in optimizer.param_groups]
    return build(groups, lr=optimizer.defaults["lr"], kahan_sum=True)


def _adam(group: dict[str, Any]) -> dict[str, Any]:
    beta1, beta2 = group["betas"]
    shared = {name: group[name] for name in ("lr", "eps", "weight_decay")}
    return {**shared, "beta1": beta1, "beta2": beta2, "decouple_wd": group["decoupled_weight_decay"]}


def _sgd(group: dict[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in ("lr", "momentum", "weight_decay")}


def with_stochastic_rounding(optimizer: Optimizer) -> Optimizer:
    """torchao's AdamW, which computes in fp32 and rounds the parameter at random."""
    from torchao.optim import _AdamW

    if type(optimizer) not in (Adam, AdamW):
        raise _no_such("stochastic rounding is there for AdamW", optimizer)
    if any(group["weight_decay"] and not group["decoupled_weight_decay"] for group in optimizer.param_groups):
        raise _no_such("stochastic rounding is there for AdamW", optimizer)
    _refuse(optimizer, "torchao's AdamW has", ("amsgrad", "maximize"))
    kept = ("params", "lr", "betas", "eps", "weight_decay")
    groups = [{name: group[name] for name in kept} for group in optimizer.param_groups]
    made: Optimizer = _AdamW(groups, lr=optimizer.defaults["lr"], bf16_stochastic_round=True)
    if all(p.device.type == "cpu" for group in groups for p in group["params"]):
        _run_eagerly(made)
    return made


def _run_eagerly(optimizer: Optimizer) -> None:
    """torchao compiles its update for every shape: on a CPU 8 shapes took 16 s, and no step was faster for it."""
    step = optimizer.step

    def eager(closure: Callable[[], Any] | None = None) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return step(closure)

    optimizer.step = eager  # type: ignore[method-assign]


def _refuse(optimizer: Optimizer, who_has: str, options: tuple[str, ...]) -> None:
    unknown = [name for name in options if any(group.get(name) for group in optimizer.param_groups)]
    if unknown:
        raise UnavailableError(f"{who_has} no {' and '.join(unknown)}: use bf16:update=nearest")


def _no_such(there: str, optimizer: Optimizer) -> UnavailableError:
    has = type(optimizer).__name__
    return UnavailableError(f"{there}, and the workload has {has}: use bf16:update=nearest")


UPDATES = {
    "kahan": Update(with_kahan, with_compensation, Package("optimi", "torch-optimi")),
    "stochastic": Update(with_stochastic_rounding, two_moments, Package("torchao", "torchao")),
}
