"""The short training that finds a lottery ticket (Frankle and Carbin, arXiv 1803.03635, section 1)."""

import copy
from collections.abc import Iterable
from itertools import islice

import torch
import torch.distributed as dist

from perfkit.techniques.own_step import run_step
from perfkit.techniques.state import TrainState, World
from perfkit.techniques.trial import trial_batches


def after_training(state: TrainState, layers: Iterable[str], steps: int) -> list[torch.Tensor]:
    """The weights of these layers after so many steps of a copy of the model; on all ranks those of the first.

    The copy is trained with the workload's own optimizers on trial batches, and is gone afterwards.
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
    with trial_batches(state) as batches:
        for batch in islice(batches, steps):
            if state.workload.step is None:
                training.backward(training.loss(batch))
                training.update()
                training.zero_grad()
            else:
                run_step(training, batch)
    weights = [model.get_parameter(f"{name}.weight").detach() for name in layers]
    if state.world.size > 1:
        for weight in weights:
            dist.broadcast(weight, src=0)
    return weights
