"""Measures norms of the first gradients and of buffers: losses need not show that these are wrong."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.techniques.activations.paged_tensors import get_local_part


@contextmanager
def watch_gradient_norm(optimizers: Sequence[Optimizer]) -> Iterator[dict[str, float]]:
    """While it is entered, the fact is the L2 norm of the gradients of each optimizer's first update, of all together.

    Absent where an optimizer makes no update, or has no gradients by then.
    """
    fact: dict[str, float] = {}
    squares: dict[int, float] = {}

    def measure(place: int, optimizer: Optimizer, *_of_the_call: object) -> None:
        if place in squares:
            return
        parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
        gradients = [get_local_part(parameter.grad) for parameter in parameters if parameter.grad is not None]
        norms = [torch.linalg.vector_norm(part.float()).item() for part in gradients if not part.is_sparse]
        scale = getattr(optimizer, "grad_scale", None)  # a gradient scaler leaves dividing by it to fused optimizers
        divisor = 1.0 if scale is None else float(scale)
        squares[place] = sum(norm * norm for norm in norms) / divisor**2

    with ExitStack() as stack:
        for place, optimizer in enumerate(optimizers):
            stack.callback(optimizer.register_step_pre_hook(partial(measure, place)).remove)
        yield fact
    total = sum(squares.values()) ** 0.5
    if len(squares) == len(optimizers) and all(squares.values()) and math.isfinite(total):
        fact["gradient_norm"] = total


def measure_buffer_norm(model: nn.Module) -> dict[str, float]:
    """Measure the L2 norm of the model's buffers, counts of batches included; absent without one, or if infinite."""
    buffers = [buffer for buffer in model.buffers() if not buffer.is_sparse and not buffer.is_complex()]
    norms = [torch.linalg.vector_norm(get_local_part(buffer).double()).item() for buffer in buffers]
    total = sum(norm * norm for norm in norms) ** 0.5
    return {"buffer_norm": total} if norms and math.isfinite(total) else {}
