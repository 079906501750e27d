"""Explains why a batch's loss is not the mean of its microbatches' losses: what depends on the whole batch."""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from perfkit.techniques.base.state import TrainState
from perfkit.workloads.workload import Batch, join_batches, split_batch

# Products of other sizes round differently, deep models more; what samples do to each other is more than this.
_AGREES = 1e-3


class _Call(NamedTuple):
    """Numbers of each sample of a module's inputs and outputs; None where tensors have no dimension of samples."""

    name: str
    kind: str
    given: torch.Tensor | None
    returned: torch.Tensor | None


def explain_batch_dependence(state: TrainState, whole: Batch, tolerance: float) -> str:
    """Explain it for a batch of two microbatches; call it within `discard_saved_tensors`."""
    part = split_batch(whole, 2)[0]
    loss = state.loss(part).item()
    if not math.isclose(loss, state.loss(part).item(), rel_tol=tolerance):
        return "it changes from call to call (dropout, or state that the model keeps)"
    if module := _find_mixing_module(state, whole, part):
        return f"samples share what {module} computes"
    doubled = state.loss(join_batches((part, part))).item()
    if math.isclose(doubled, 2 * loss, rel_tol=tolerance):
        return "it is a sum over samples"
    if math.isclose(doubled, loss, rel_tol=tolerance):
        return "the loss function divides by or compares with a number of the whole batch (tokens, labels, statistics)"
    return "the loss function compares samples with each other (in-batch negatives)"


def _find_mixing_module(state: TrainState, whole: Batch, part: Batch) -> str:
    """The first module to return other values for the same samples in a larger batch: inner ones return first."""
    with _record_calls(state.model) as large:
        state.loss(whole)
    with _record_calls(state.model) as small:
        state.loss(part)
    for ours, theirs in zip(large, small, strict=False):
        if (
            ours.name == theirs.name
            and _agrees(ours.given, theirs.given)
            and _agrees(ours.returned, theirs.returned) is False
        ):
            return f"{ours.name} ({ours.kind})" if ours.name else ours.kind
    return ""


@contextmanager
def _record_calls(model: nn.Module) -> Iterator[list[_Call]]:
    calls: list[_Call] = []

    def make_hook(name: str, kind: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda _module, given, returned: calls.append(_Call(name, kind, _summarize(given), _summarize(returned)))

    with ExitStack() as stack:
        for name, module in model.named_modules():
            hook = make_hook(name, type(module).__name__)
            stack.callback(nn.Module.register_forward_hook(module, hook).remove)  # scripted modules refuse the method
        yield calls


def _summarize(value: Any) -> torch.Tensor | None:
    """The mean size of each sample's values, of the first tensor."""
    first = value[0] if isinstance(value, tuple) and value else value
    if not isinstance(first, torch.Tensor) or not first.dim() or not first.numel():
        return None
    return first.detach().double().abs().flatten(1).mean(1) if first.dim() > 1 else first.detach().double()


def _agrees(large: torch.Tensor | None, small: torch.Tensor | None) -> bool | None:
    """True if the first half of the larger batch has the smaller one's values; None where samples are not in rows."""
    if large is None or small is None or len(large) != 2 * len(small):
        return None
    return torch.allclose(large[: len(small)], small, rtol=_AGREES, atol=_AGREES * float(small.abs().max()))
