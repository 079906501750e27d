"""What a workload is: a model, an optimizer, batches and a loss, as plain functions."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

# A batch is a mapping of names to tensors, on the CPU when made; the worker moves it to the device.
Batch = dict[str, torch.Tensor]


def _no_blocks(_model: nn.Module) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Something to train.

    Attributes:
        name: shown in reports.
        unit: what throughput counts, `tokens` or `samples`.
        units_per_batch: units in one microbatch of one rank.
        build_model: the model in fp32 on the CPU; the worker seeds torch before and moves it after.
        build_optimizer: the optimizer over the given parameters.
        make_batch: one microbatch on the CPU, drawn from the given generator (deterministic, not constant).
        loss: the scalar training loss of a microbatch.
        blocks: names (as in `model.get_submodule`) of the repeated blocks that checkpointing, sharding and
            per-block compilation work on; outermost first, never nested.
        use_sdpa: switches the model from explicit attention (the baseline) to
            `torch.nn.functional.scaled_dot_product_attention`; None where there is no attention to switch.
        model_flops_per_unit: FLOPs per unit of forward and backward by a closed form; None where none is known.
        description: one line of sizes, for the report.
    """

    name: str
    unit: str
    units_per_batch: int
    build_model: Callable[[], nn.Module]
    build_optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    make_batch: Callable[[torch.Generator], Batch]
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    blocks: Callable[[nn.Module], tuple[str, ...]] = _no_blocks
    use_sdpa: Callable[[nn.Module], None] | None = None
    model_flops_per_unit: float | None = None
    description: str = ""


def adamw(parameters: Iterable[nn.Parameter], **options: Any) -> Optimizer:
    """The optimizer of the built-in workloads: AdamW at a learning rate of 1e-3, torch's defaults otherwise."""
    return torch.optim.AdamW(parameters, lr=1e-3, **options)
