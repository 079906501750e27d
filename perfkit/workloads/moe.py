"""`moe`: the transformer of `gpt` with a mixture of experts for every MLP."""

import math
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch import nn

from perfkit.core.errors import UsageError
from perfkit.workloads import gpt
from perfkit.workloads.experts import Experts, MixtureOfExperts, Router, keep_auxiliary_losses
from perfkit.workloads.gpt import Gpt, GptModel, GptShape
from perfkit.workloads.parameters import Count
from perfkit.workloads.routing import ROUTERS, compute_slots
from perfkit.workloads.workload import Batch, LinearLoss, Workload

AUXILIARY_WEIGHT = 0.01  # alpha of Switch Transformers, section 2.2


class Moe(Gpt):
    """Parameters of `moe`. What is not given comes from the size, the sizes being those of `gpt`."""

    usage: ClassVar[str] = "moe"
    summary: ClassVar[str] = "gpt with a mixture of experts for every MLP: Switch, GShard or expert-choice routing"
    on_gpu: ClassVar = {"size": "small", "experts": 8}

    router: Annotated[
        Literal["switch", "gshard", "expert_choice"], msgspec.Meta(description="routing of tokens to experts")
    ] = "switch"
    experts: Annotated[Count, msgspec.Meta(title="integer", description="experts per layer")] = 4
    capacity: Annotated[
        Annotated[float, msgspec.Meta(gt=0)] | None,
        msgspec.Meta(title="number", description="capacity factor, by router"),
    ] = None

    def build(self) -> Workload:
        dense = super().build()
        kind = ROUTERS[self.router]
        if self.experts < (kind.active or 1):
            raise UsageError(f"moe: router={self.router} sends a token to {kind.active} experts; use experts=2 or more")
        shape = self.resolve_shape()
        seq_len = self.seq_len or shape.positions
        tokens = dense.units_per_batch
        capacity = kind.capacity if self.capacity is None else self.capacity
        slots = compute_slots(tokens, self.experts, capacity)
        parameters = count_parameters(shape, self.experts)
        return replace(
            dense,
            name=f"moe {self.size}",
            build_model=partial(GptModel, shape, seq_len, partial(_build_mixture, self.router, self.experts, capacity)),
            loss=_compute_loss,
            linear_loss=_compute_linear_loss,
            tensor_parallel_plan=None,
            sequence_dimensions=None,
            expert_parallel=find_experts,
            model_flops_per_unit=float(
                compute_flops_per_token(shape, seq_len, self.experts, self.experts * slots / tokens)
            ),
            description=f"{shape.layers} layers, {shape.heads} heads, width {shape.width}, vocab {shape.vocab:,}, "
            f"{self.experts} experts per layer, {self.router} routing, {slots:,} slots per expert (capacity "
            f"factor {capacity:g}), {parameters / 1000000.0:,.1f}M parameters, batch {shape.batch_size} x "
            f"{seq_len} tokens",
        )


def count_parameters(shape: GptShape, experts: int) -> int:
    """All parameters of a model with this number of experts per layer."""
    return shape.parameters + round(_count_extra_parameters(shape, experts, experts))


def compute_flops_per_token(shape: GptShape, seq_len: int, experts: int, active: float) -> float:
    """Model FLOPs of forward and backward per token, 6N + 12LHQT as those of `gpt`, N being the active parameters.

    A token takes `active` of the experts, and all of the router. Slots are counted, filled or not, since the products
    are computed: `active` is the capacity factor.
    """
    return gpt.compute_flops_per_token(shape, seq_len) + 6 * _count_extra_parameters(shape, experts, active)


def _count_extra_parameters(shape: GptShape, experts: int, active: float) -> float:
    """Parameters besides those of `gpt`, which has one MLP per layer: of experts and the router."""
    return shape.layers * ((active - 1) * (8 * shape.width**2 + 5 * shape.width) + experts * shape.width)


def find_experts(model: nn.Module) -> tuple[str, ...]:
    """Names of the modules whose parameters have the expert as first dimension."""
    return tuple(name for name, module in model.named_modules() if isinstance(module, Experts))


def _build_mixture(router: str, experts: int, capacity: float, shape: GptShape) -> nn.Module:
    kind = ROUTERS[router]
    scale = 1 / math.sqrt(2 * shape.layers)  # as the output layers of gpt's branches
    return MixtureOfExperts(Router(shape.width, experts, kind, capacity), Experts(shape.width, experts, scale))


def _compute_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    with keep_auxiliary_losses(model) as layers:
        return _add_auxiliary_losses(gpt.compute_loss(model, batch), layers)


def _compute_linear_loss(model: nn.Module, batch: Batch, loss: LinearLoss) -> torch.Tensor:
    with keep_auxiliary_losses(model) as layers:
        return _add_auxiliary_losses(gpt.compute_linear_loss(model, batch, loss), layers)


def _add_auxiliary_losses(loss: torch.Tensor, layers: tuple[MixtureOfExperts, ...]) -> torch.Tensor:
    for layer in layers:
        if layer.auxiliary is not None:
            loss = loss + AUXILIARY_WEIGHT * layer.auxiliary
    return loss
