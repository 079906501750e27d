"""Checks that training in microbatches is equivalent to training on the whole batch."""

import math

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from perfkit.core.record.claim import ParityRule
from perfkit.techniques.base.batch_dependence import explain_batch_dependence
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS
from perfkit.techniques.base.trial import discard_saved_tensors, draw_trial_samples
from perfkit.workloads.workload import split_batch

_ROUNDINGS = 8  # as `amp`


def find_loss_mismatch(state: TrainState, size: int) -> ParityRule | None:
    """Explain why losses of microbatches of `size` samples are not comparable with the batch's; None if they are.

    It is asked of the whole model. A plan has no losses to compare, and no values to tell by.
    """
    if any(isinstance(module, _BatchNorm) for module in state.model.modules()):
        basis = "batch norm uses each microbatch's statistics instead of the batch's"
        return ParityRule(relative=None, basis=basis)
    if state.planned_for is not None:
        return None
    eps = max(torch.finfo(p.dtype).eps for p in state.model.parameters() if p.is_floating_point())
    tolerance = max(LOSSLESS.relative or 0.0, _ROUNDINGS * eps)
    with draw_trial_samples(state, 2 * size) as two, discard_saved_tensors():
        whole, *parts = (state.loss(batch).item() for batch in (two, *split_batch(two, 2)))
        if math.isclose(whole, sum(parts) / 2, rel_tol=tolerance):
            return None
        cause = explain_batch_dependence(state, two, tolerance)
    return ParityRule(relative=None, basis=f"the batch's loss is not the mean of its microbatches' losses: {cause}")
