"""Experts distributed over ranks: a rank keeps some of each layer's, and tokens reach their experts by all-to-all."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed._functional_collectives import all_to_all_single

from perfkit.core.errors import UnavailableError

_TO_BE = (
    "ep needs modules whose parameters have the expert as first dimension, and which map (experts, slots, width) to "
    "the same shape, or take tokens (tokens, width), the experts of each (tokens, choices) and their weights"
)


class ExpertExchange(NamedTuple):
    """Exchange of expert layers with other ranks in a step of one batch: number of all-to-alls and their bytes.

    `backward` counts the calls in backward. `slots`: the number of tokens sent does not depend on the router.
    """

    calls: int
    backward: int
    bytes: int
    slots: bool


def check_experts(model: nn.Module, names: tuple[str, ...], ranks: int) -> None:
    """Raise `UnavailableError` if these modules' experts cannot be distributed over the ranks."""
    if not names:
        raise UnavailableError("the workload names no expert module (expert_parallel)")
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise UnavailableError(f"expert_parallel names {name}, which the model does not have")
        counts = {parameter.shape[0] if parameter.dim() else 0 for parameter in modules[name].parameters()}
        if len(counts) != 1:
            layout = f"first dimensions of {', '.join(map(str, sorted(counts)))}" if counts else "no parameters"
            raise UnavailableError(f"{name} has {layout}: {_TO_BE}")
        (experts,) = counts
        if experts != count_experts(modules[name]):
            raise UnavailableError(
                f"{name} has {count_experts(modules[name])} experts, but parameters whose first dimension is "
                f"{experts}: {_TO_BE}"
            )
        if experts % ranks:
            raise UnavailableError(f"the {experts} experts of {name} do not divide by {ranks} ranks")


def count_experts(module: nn.Module) -> int:
    """Count a module's experts on this rank: its `num_experts`, as in Transformers, else the size of its parameters."""
    number = getattr(module, "num_experts", None)
    return number if isinstance(number, int) else next(module.parameters()).shape[0]


def measure_exchange(model: nn.Module, names: tuple[str, ...], forward: Callable[[], object]) -> ExpertExchange:
    """Measure the exchange of expert layers in `forward` of a model that is not yet distributed, and in backward.

    `UnavailableError` where a layer is called in another way than tokens can be sent.
    """
    forth: list[tuple[int, bool]] = []
    slots = True

    def see(name: str, module: nn.Module, inputs: tuple[object, ...], output: object) -> None:
        nonlocal slots
        experts = next(module.parameters()).shape[0]
        chosen = get_chosen_experts(inputs)
        if chosen is not None and isinstance(inputs[0], torch.Tensor) and isinstance(output, torch.Tensor):
            slots = False
            if output.shape != inputs[0].shape:
                shapes = f"{list(inputs[0].shape)} and returns {list(output.shape)}"
                raise UnavailableError(f"{name} takes tokens of {shapes}: {_TO_BE}", id="skip.experts")
            sides = (inputs[0], output)
            forth.extend((chosen.shape[1] * side.nbytes, side.requires_grad) for side in sides)
            return
        for side in (*inputs, output):
            if not isinstance(side, torch.Tensor) or side.dim() != 3 or side.shape[0] != experts:
                shown = list(side.shape) if isinstance(side, torch.Tensor) else type(side).__name__
                raise UnavailableError(f"{name} takes or returns {shown}: {_TO_BE}", id="skip.experts")
            forth.append((side.nbytes, side.requires_grad))

    with ExitStack() as stack:
        for name in names:
            stack.callback(model.get_submodule(name).register_forward_hook(partial(see, name)).remove)
        forward()
    back = [size for size, differentiated in forth if differentiated]
    return ExpertExchange(len(forth) + len(back), len(back), sum(size for size, _ in forth) + sum(back), slots)


def get_chosen_experts(inputs: tuple[object, ...]) -> torch.Tensor | None:
    """The experts of each token (tokens, choices), where a module is called with tokens, these, and their weights."""
    chosen = inputs[1] if len(inputs) == 3 else None
    return chosen if isinstance(chosen, torch.Tensor) and chosen.dim() == 2 and not chosen.is_floating_point() else None


def shard_experts(
    experts: nn.Module, everyone: ProcessGroup, group: ProcessGroup, replicas: ProcessGroup, *, slots: bool
) -> None:
    """Leave this rank of the `group` its part of the experts, and have tokens go where theirs are.

    All ranks of `everyone` have the experts of its first then, as with DDP. `replicas` are those with the same part.
    """
    ranks, first = group.size(), dist.get_process_group_ranks(everyone)[0]
    count = count_experts(experts)
    for name, parameter in list(experts.named_parameters()):
        dist.broadcast(parameter.detach(), src=first, group=everyone)
        own = nn.Parameter(parameter.detach().chunk(ranks)[group.rank()].clone(), parameter.requires_grad)
        if own.requires_grad:
            own.register_hook(partial(_average_gradient, everyone.size(), replicas))
        owner, _, leaf = name.rpartition(".")
        experts.get_submodule(owner).register_parameter(leaf, own)
    if slots:
        experts.register_forward_pre_hook(partial(_dispatch_tokens, group))
        experts.register_forward_hook(partial(_return_tokens, group))
        return
    if hasattr(experts, "num_experts"):  # marker of local experts in Transformers
        experts.num_experts = count // ranks  # type: ignore[assignment]
    own_parameters = tuple(experts.parameters())
    experts.forward = partial(_run_without_slots, experts.forward, group, count, own_parameters)


def _average_gradient(ranks: int, replicas: ProcessGroup, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of the mean of all ranks' losses: the sum over a group's tokens and over all groups, divided by all
    ranks."""
    gradient = gradient / ranks
    if replicas.size() > 1:
        dist.all_reduce(gradient, group=replicas)
    return gradient


def _dispatch_tokens(group: ProcessGroup, _experts: nn.Module, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
    """(experts, slots, width) of this rank's tokens -> (experts of this rank, slots of all ranks, width)."""
    (tokens,) = inputs
    received = all_to_all_single(tokens.contiguous(), None, None, group)
    return (received.unflatten(0, (group.size(), -1)).transpose(0, 1).flatten(1, 2),)


def _return_tokens(
    group: ProcessGroup, _experts: nn.Module, _inputs: tuple[torch.Tensor], output: torch.Tensor
) -> torch.Tensor:
    """The other way round."""
    parts = output.unflatten(1, (group.size(), -1)).transpose(0, 1).flatten(0, 1)
    return all_to_all_single(parts.contiguous(), None, None, group)


def _run_without_slots(
    forward: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor],
    group: ProcessGroup,
    experts: int,
    parameters: tuple[nn.Parameter, ...],
    tokens: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    """Send each choice of each token to its expert's rank and back; the results are weighted and summed.

    `forward` is that of this rank's part of the `experts`, which has these parameters. Ranks first exchange the numbers
    of tokens to come.
    """
    ranks, choices = group.size(), chosen.shape[1]
    order = chosen.flatten().argsort(stable=True)
    counts = chosen.flatten().bincount(minlength=experts)
    coming = all_to_all_single(counts, None, None, group).view(ranks, -1)  # (from rank, expert of this one)
    out, back = counts.view(ranks, -1).sum(dim=1).tolist(), coming.sum(dim=1).tolist()
    received = all_to_all_single(tokens[order // choices].contiguous(), back, out, group)
    own = torch.arange(coming.shape[1], device=tokens.device).repeat(ranks).repeat_interleave(coming.flatten())
    output = forward(received, own[:, None], weights.new_ones(len(own), 1))
    if not len(own):  # else this rank would skip an exchange in backward that the others wait for
        output = output + sum((parameter.flatten()[:0].sum() for parameter in parameters), start=received.sum())
    returned = all_to_all_single(output.contiguous(), out, back, group)
    in_order = returned.new_empty(returned.shape).index_put((order,), returned)
    summed: torch.Tensor = (in_order.unflatten(0, (-1, choices)) * weights[..., None]).sum(dim=1)
    return summed.to(tokens.dtype)
