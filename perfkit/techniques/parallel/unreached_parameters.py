"""Finds parameters that the loss does not reach, for which DistributedDataParallel has to look in every step."""

import torch
from torch import nn

from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.trial import discard_saved_tensors, draw_trial_batch
from perfkit.workloads.model_loss import compute_loss

# What torch.utils.checkpoint's reentrant form leaves in a graph: what is recomputed is not in it.
_HIDING = "CheckpointFunctionBackward"


def find_unreached_parameters(state: TrainState) -> frozenset[nn.Parameter]:
    """The trained parameters that the loss of one batch does not depend on; the batch is the same on all ranks.

    By one forward pass that keeps nothing. Empty for a step of the workload's own, whose losses are not known, for
    graphs that hide what they recompute, and in plans, where a gradient that is not there would change little.
    """
    if state.workload.step is not None or state.planned_for is not None:
        return frozenset()
    eager = torch.compiler.set_stance("force_eager")
    with eager, draw_trial_batch(state) as batch, discard_saved_tensors(), state.enter_forward_contexts():
        loss = compute_loss(state.workload, state.model, batch)
    reached = _list_reached(loss)
    if reached is None:
        return frozenset()
    return frozenset(p for p in state.model.parameters() if p.requires_grad and p not in reached)


def _list_reached(loss: torch.Tensor) -> set[torch.Tensor] | None:
    """The leaves of the loss's graph; None if the graph is not all there."""
    leaves: set[torch.Tensor] = set()
    waiting, seen = [loss.grad_fn], {loss.grad_fn}
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        if node.name() == _HIDING:
            return None
        if (leaf := getattr(node, "variable", None)) is not None:
            leaves.add(leaf)
        for following, _ in node.next_functions:
            if following not in seen:
                seen.add(following)
                waiting.append(following)
    return leaves
