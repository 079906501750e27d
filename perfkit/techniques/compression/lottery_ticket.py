"""The short training that finds a lottery ticket (Frankle and Carbin, arXiv 1803.03635, section 1), and what is trained
again: the weights as they were built, or after a few of its steps (Frankle et al., arXiv 1912.05671, section 4)."""

import copy
from collections.abc import Iterable
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn

from perfkit.techniques.base.own_step import run_step
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.base.trial import draw_trial_batches


def train_copy(state: TrainState, layers: Iterable[str], steps: int, late: int = 0) -> list[torch.Tensor]:
    """The weights of these layers after `steps` steps of a copy of the model; on all ranks those of the first.

    The copy is trained with the workload's own optimizers on trial batches, and then deleted. The model gets its
    parameters after `late` of these steps.
    """
    model = copy.deepcopy(state.model)
    training = TrainState(
        workload=state.workload,
        model=model,
        device=state.device,
        world=World(),
        forward_contexts=state.forward_contexts,
    )
    training.build_optimizers()
    with draw_trial_batches(state) as batches:
        for index, batch in enumerate(islice(batches, steps)):
            if late and index == late:
                _copy_parameters(model, state.model)
            if state.workload.step is None:
                training.backward(training.loss(batch))
                training.update()
                training.zero_grad()
            else:
                run_step(training, batch)
    weights = [model.get_parameter(f"{name}.weight").detach() for name in layers]
    rewound = [parameter.detach() for parameter in state.model.parameters()] if late else []
    if state.world.size > 1:
        for weight in (*weights, *rewound):
            dist.broadcast(weight, src=0)
    return weights


def _copy_parameters(model: nn.Module, into: nn.Module) -> None:
    with torch.no_grad():
        for parameter, trained in zip(into.parameters(), model.parameters(), strict=True):
            parameter.copy_(trained)
