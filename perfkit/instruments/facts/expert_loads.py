"""Measures how evenly routers distribute tokens to experts, and how many tokens are dropped."""

from contextlib import ExitStack
from functools import partial

import torch
from torch import nn

from perfkit.core.record.rank_record import ExpertLoad
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.techniques.parallel.expert_parallel import count_experts, get_chosen_experts
from perfkit.workloads.routing import Routing
from perfkit.workloads.workload import Batch


def measure_expert_loads(state: TrainState, batch: Batch) -> tuple[ExpertLoad, ...]:
    """Measure the routing of a batch's tokens by each router, in call order.

    Told by modules that return a `Routing`, and by those of experts that are called with the experts of each token.
    Nothing of a workload that names no experts, or whose step is its own, and of a stage of a pipeline, which has a
    part of the layers. Compiled code runs eagerly, so that its modules are called.
    """
    find = state.workload.expert_parallel
    if find is None or state.workload.step is not None or state.own_forward is not None:
        return ()
    with unwrap_modules(state.model):
        names = {module: name for name, module in state.model.named_modules()}
        experts = {name: _count_experts(state, name) for name in find(state.model)}
    if not experts:
        return ()
    loads: list[ExpertLoad] = []

    def see(name: str, _module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        chosen = get_chosen_experts(inputs)
        if isinstance(output, Routing):
            loads.append(_build_load(name, output))
        elif name in experts and chosen is not None:
            loads.append(_build_load_without_slots(name, chosen, experts[name]))

    with ExitStack() as stack:
        for module, name in names.items():
            stack.callback(module.register_forward_hook(partial(see, name)).remove)
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        state.loss(batch)
    return tuple(loads)


def _count_experts(state: TrainState, name: str) -> int:
    """Count the experts of a layer on all ranks."""
    module = state.model.get_submodule(name)
    parameter, _ = next(module.named_parameters())
    return count_experts(module) * state.dealt.get(f"{name}.{parameter}", 1)


def _build_load(router: str, routing: Routing) -> ExpertLoad:
    return ExpertLoad(
        layer=_get_layer_name(router),
        tokens=routing.total,
        routed_tokens=tuple(routing.sent.tolist()),
        accepted_tokens=tuple(routing.taken.tolist()),
        dropped_tokens=int(routing.dropped),
        auxiliary_loss=None if routing.auxiliary is None else routing.auxiliary.item(),
    )


def _build_load_without_slots(name: str, chosen: torch.Tensor, experts: int) -> ExpertLoad:
    """Build the load of experts that take all tokens; an auxiliary loss, if any, is the model's own."""
    sent = tuple(chosen.flatten().bincount(minlength=experts).tolist())
    return ExpertLoad(
        layer=_get_layer_name(name), tokens=len(chosen), routed_tokens=sent, accepted_tokens=sent, dropped_tokens=0
    )


def _get_layer_name(name: str) -> str:
    return name.rpartition(".")[0] or name
