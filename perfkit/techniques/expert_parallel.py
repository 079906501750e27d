"""Experts dealt over ranks: a rank keeps some of each layer's, and tokens go to theirs and back by all-to-all."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import all_to_all_single_autograd

from perfkit.errors import UnavailableError

_TO_BE = (
    "ep deals modules whose parameters have the expert as first dimension, and which map (experts, slots, width) to "
    "the same, each expert its own slots"
)


class Exchanged(NamedTuple):
    """What layers of experts exchange with the ranks in a step of one batch: calls of all-to-all, and their bytes.

    `backward` are those of the calls in backward.
    """

    calls: int
    backward: int
    bytes: int


def check_experts(model: nn.Module, names: tuple[str, ...], ranks: int) -> None:
    """`UnavailableError` where these modules' experts cannot be dealt over so many ranks."""
    if not names:
        raise UnavailableError("the workload names no module of experts (expert_parallel)")
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise UnavailableError(f"expert_parallel names {name}, which the model does not have")
        counts = {parameter.shape[0] if parameter.dim() else 0 for parameter in modules[name].parameters()}
        if len(counts) != 1:
            found = f"first dimensions of {', '.join(map(str, sorted(counts)))}" if counts else "no parameters"
            raise UnavailableError(f"{name} has {found}: {_TO_BE}")
        (experts,) = counts
        if experts % ranks:
            raise UnavailableError(f"the {experts} experts of {name} do not divide by {ranks} ranks")


def exchanged(model: nn.Module, names: tuple[str, ...], forward: Callable[[], object]) -> Exchanged:
    """What layers of experts exchange in `forward` of a model that is not dealt out yet, and again in backward.

    `UnavailableError` where a layer is called in another way than tokens can be sent.
    """
    forth: list[tuple[int, bool]] = []

    def see(name: str, module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        experts = next(module.parameters()).shape[0]
        for each in (*inputs, output):
            if not isinstance(each, torch.Tensor) or each.dim() != 3 or each.shape[0] != experts:
                shown = list(each.shape) if isinstance(each, torch.Tensor) else type(each).__name__
                raise UnavailableError(f"{name} takes or returns {shown}: {_TO_BE}")
            forth.append((each.nbytes, each.requires_grad))

    with ExitStack() as stack:
        for name in names:
            stack.callback(model.get_submodule(name).register_forward_hook(partial(see, name)).remove)
        forward()
    back = [size for size, differentiated in forth if differentiated]
    return Exchanged(len(forth) + len(back), len(back), sum(size for size, _ in forth) + sum(back))


def deal(experts: nn.Module, everyone: ProcessGroup, group: ProcessGroup, replicas: ProcessGroup) -> None:
    """Leave this rank of the `group` its part of the experts, and have tokens go where theirs are.

    All ranks of `everyone` have the experts of its first then, as with DDP. `replicas` are those with the same part.
    """
    ranks, first = group.size(), dist.get_process_group_ranks(everyone)[0]
    for name, parameter in list(experts.named_parameters()):
        dist.broadcast(parameter.detach(), src=first, group=everyone)
        own = nn.Parameter(parameter.detach().chunk(ranks)[group.rank()].clone(), parameter.requires_grad)
        if own.requires_grad:
            own.register_hook(partial(_averaged, everyone.size(), replicas))
        owner, _, leaf = name.rpartition(".")
        experts.get_submodule(owner).register_parameter(leaf, own)
    experts.register_forward_pre_hook(partial(_sent, group))
    experts.register_forward_hook(partial(_sent_back, group))


def _averaged(ranks: int, replicas: ProcessGroup, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean of all ranks' losses: what the tokens of a group made, of all groups, over all ranks."""
    gradient = gradient / ranks
    if replicas.size() > 1:
        dist.all_reduce(gradient, group=replicas)
    return gradient


def _sent(group: ProcessGroup, _experts: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """(experts, slots, width) of this rank's tokens -> (experts of this rank, slots of all ranks, width)."""
    (tokens,) = inputs
    received = all_to_all_single_autograd(tokens.contiguous(), None, None, group)
    return (received.unflatten(0, (group.size(), -1)).transpose(0, 1).flatten(1, 2),)


def _sent_back(
    group: ProcessGroup, _experts: nn.Module, _inputs: tuple[torch.Tensor], output: torch.Tensor
) -> torch.Tensor:
    """The other way round."""
    parts = output.unflatten(1, (group.size(), -1)).transpose(0, 1).flatten(0, 1)
    return all_to_all_single_autograd(parts.contiguous(), None, None, group)
