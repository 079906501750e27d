"""Measures norms of the first gradients and of buffers: losses need not show that these are wrong."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.state import TrainState


@contextmanager
def watch_gradient_norm(state: TrainState) -> Iterator[dict[str, float]]:
    """While it is entered, the facts are norms of the gradients of each parameter's first update, of all together.

    `gradient_norm` is the L2 norm of this rank's parts. `gradient_norm_share` is the root of the rank's share of the
    square of the norm over all ranks: gradients that several ranks hold are divided among them. Both are absent where
    an optimizer makes no update, or has no gradients by then, and where a rank's share is unknown: with pipelines, or
    with gradients that are still to be summed.
    """
    facts: dict[str, float] = {}
    optimizers = [*state.optimizers.values()]
    squares: dict[int, tuple[float, float]] = {}
    measured: set[nn.Parameter] = set()  # some optimizers update a few parameters at a time
    dealt = {state.model.get_parameter(name): ranks for name, ranks in state.dealt.items()}

    def measure(place: int, optimizer: Optimizer, *_of_the_call: object) -> None:
        scale = getattr(optimizer, "grad_scale", None)  # a gradient scaler leaves dividing by it to fused optimizers
        divisor = 1.0 if scale is None else float(scale) ** 2
        own, share = squares.get(place, (0.0, 0.0))
        for parameter in (parameter for group in optimizer.param_groups for parameter in group["params"]):
            gradient = None if parameter.grad is None else get_local_part(parameter.grad)
            if gradient is None or gradient.is_sparse or parameter in measured:
                continue
            measured.add(parameter)
            square = torch.linalg.vector_norm(gradient.float()).item() ** 2 / divisor
            own += square
            share += square * _count_parts(parameter.grad, dealt.get(parameter, state.slices)) / state.world.size
        squares[place] = own, share

    with ExitStack() as stack:
        for place, optimizer in enumerate(optimizers):
            stack.callback(optimizer.register_step_pre_hook(partial(measure, place)).remove)
        yield facts
    own, share = (sum(values) ** 0.5 for values in zip(*squares.values(), strict=True)) if squares else (0.0, 0.0)
    complete = len(squares) == len(optimizers) and all(own for own, _ in squares.values())
    if complete and math.isfinite(own) and math.isfinite(share) and state.own_forward is None:
        facts |= {"gradient_norm": own, "gradient_norm_share": share}


def _count_parts(gradient: torch.Tensor, dealt_over: int) -> float:
    """The number of parts that a gradient is split into over ranks; NaN where parts are still to be summed."""
    parts = float(dealt_over)
    if isinstance(gradient, DTensor):
        for dimension, placement in enumerate(gradient.placements):
            if placement.is_partial():
                return math.nan
            if placement.is_shard():
                parts *= gradient.device_mesh.size(dimension)
    return parts


def measure_buffer_norm(model: nn.Module) -> dict[str, float]:
    """Measure the L2 norm of the model's buffers, counts of batches included; absent without one, or if infinite."""
    buffers = [buffer for buffer in model.buffers() if not buffer.is_sparse and not buffer.is_complex()]
    norms = [torch.linalg.vector_norm(get_local_part(buffer).double()).item() for buffer in buffers]
    total = sum(norm * norm for norm in norms) ** 0.5
    return {"buffer_norm": total} if norms and math.isfinite(total) else {}
