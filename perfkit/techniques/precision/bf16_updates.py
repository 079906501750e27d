"""Optimizers of parameters in bf16 whose small updates are not lost to rounding."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.optimizers.optimizer_state import Group, count_adam_bytes


class Bf16Update(NamedTuple):
    """A method that keeps small updates.

    Attributes:
        optimizer: replaces a workload's own by one of the same method and hyperparameters; raises `UnavailableError`
            for another method.
        state: bytes of state per parameter.
        package: the package that has it.
    """

    optimizer: Callable[[Optimizer], Optimizer]
    state: Callable[[Tensor, Group], float]
    package: Package


def count_kahan_state_bytes(parameter: Tensor, group: Group) -> float:
    """Bytes of Adam's two moments or SGD's momentum, and of the last update's rounding error."""
    moments = 2 if "betas" in group or "beta1" in group else int(group["momentum"] != 0)
    return float((moments + 1) * parameter.numel() * torch.bfloat16.itemsize)


def build_kahan_optimizer(optimizer: Optimizer) -> Optimizer:
    """optimi's, with Kahan summation."""
    import optimi

    builders: dict[type[Optimizer], tuple[Callable[..., Optimizer], Callable[[dict[str, Any]], dict[str, Any]]]] = {
        AdamW: (optimi.AdamW, _convert_adam_options),
        Adam: (optimi.Adam, _convert_adam_options),
        SGD: (optimi.SGD, _convert_sgd_options),
    }
    if type(optimizer) not in builders:
        raise _make_method_error("Kahan summation supports Adam, AdamW and SGD", optimizer)
    _refuse_options(optimizer, "optimi's optimizers support", ("amsgrad", "maximize", "nesterov", "dampening"))
    build, settings = builders[type(optimizer)]
    groups = [{"params": group["params"], **settings(group)} for group in optimizer.param_groups]
    return build(groups, lr=optimizer.defaults["lr"], kahan_sum=True)


def _convert_adam_options(group: dict[str, Any]) -> dict[str, Any]:
    beta1, beta2 = group["betas"]
    shared = {name: group[name] for name in ("lr", "eps", "weight_decay")}
    return {**shared, "beta1": beta1, "beta2": beta2, "decouple_wd": group["decoupled_weight_decay"]}


def _convert_sgd_options(group: dict[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in ("lr", "momentum", "weight_decay")}


def build_stochastic_optimizer(optimizer: Optimizer) -> Optimizer:
    """torchao's AdamW, which computes in fp32 and rounds the parameter at random."""
    from torchao.optim import _AdamW

    if type(optimizer) not in (Adam, AdamW):
        raise _make_method_error("stochastic rounding supports AdamW only", optimizer)
    if any(group["weight_decay"] and not group["decoupled_weight_decay"] for group in optimizer.param_groups):
        raise _make_method_error("stochastic rounding supports AdamW only", optimizer)
    _refuse_options(optimizer, "torchao's AdamW supports", ("amsgrad", "maximize"))
    kept = ("params", "lr", "betas", "eps", "weight_decay")
    groups = [{name: group[name] for name in kept} for group in optimizer.param_groups]
    rounding: Optimizer = _AdamW(groups, lr=optimizer.defaults["lr"], bf16_stochastic_round=True)
    if all(is_cpu(p.device) for group in groups for p in group["params"]):
        _run_eagerly(rounding)
    return rounding


def _run_eagerly(optimizer: Optimizer) -> None:
    """torchao compiles its update for every shape: on a CPU 8 shapes took 16 s, and no step was faster for it."""
    step = optimizer.step

    def eager(closure: Callable[[], Any] | None = None) -> Any:
        with torch.compiler.set_stance("force_eager"):
            return step(closure)

    optimizer.step = eager  # type: ignore[method-assign]


def _refuse_options(optimizer: Optimizer, who_has: str, options: tuple[str, ...]) -> None:
    unknown = [name for name in options if any(group.get(name) for group in optimizer.param_groups)]
    if unknown:
        raise UnavailableError(f"{who_has} no {' or '.join(unknown)}; use bf16:update=nearest")


def _make_method_error(there: str, optimizer: Optimizer) -> UnavailableError:
    has = type(optimizer).__name__
    return UnavailableError(f"{there}, and the workload has {has}; use bf16:update=nearest")


UPDATES = {
    "kahan": Bf16Update(build_kahan_optimizer, count_kahan_state_bytes, Package("optimi", "torch-optimi")),
    "stochastic": Bf16Update(build_stochastic_optimizer, count_adam_bytes, TORCHAO),
}
