"""Routes tokens to experts: each expert has the same number of slots, and a router assigns tokens to them.

Slots make all shapes independent of the tokens: experts compute all of them, filled or not.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import torch


class Routing(NamedTuple):
    """Routing of some tokens by a router.

    Attributes:
        total: number of tokens.
        tokens: the token in each slot, (experts, slots), int64; `total` if empty.
        weights: factor of each slot's output, (experts, slots); 0 if empty.
        sent: number of tokens routed to each expert, (experts,), with or without a slot.
        auxiliary: load-balancing loss, before its weight; 1 if all experts get the same number of tokens at equal
            probabilities. None if no balancing is needed.
    """

    total: int
    tokens: torch.Tensor
    weights: torch.Tensor
    sent: torch.Tensor
    auxiliary: torch.Tensor | None

    @property
    def taken(self) -> torch.Tensor:
        """Tokens per expert, (experts,)."""
        return self.sent.clamp(max=self.tokens.shape[1])

    @property
    def dropped(self) -> torch.Tensor:
        """Number of tokens without an expert."""
        routed = torch.zeros(self.total + 1, dtype=torch.bool, device=self.tokens.device)
        routed[self.tokens.flatten()] = True
        return (~routed[: self.total]).sum()


class RouterKind(NamedTuple):
    """A way to route: `route` is given probabilities (tokens, experts) and the slots of an expert."""

    route: Callable[[torch.Tensor, int], Routing]
    capacity: float  # the paper's capacity factor
    active: int | None  # experts per token; None: from the capacity factor, on average


def compute_slots(tokens: int, experts: int, capacity: float) -> int:
    """The slots of an expert, tokens / experts x capacity factor, rounded up (Switch, arXiv 2101.03961, equation 3)."""
    exactly = Fraction(str(capacity))  # of floats 100 x 1.1 / 10 is more than 11
    return min(math.ceil(tokens * exactly / experts), tokens)


def route_switch(probabilities: torch.Tensor, slots: int) -> Routing:
    """Each token to its most probable expert, weighted by the probability (Fedus et al., Switch Transformers,
    arXiv 2101.03961, section 2.1). Tokens of an expert without a free slot, in the order of the batch, are dropped."""
    return _route_to_experts(probabilities, 1, slots)


def route_gshard(probabilities: torch.Tensor, slots: int) -> Routing:
    """Each token to its two most probable experts, whose weights add up to 1 (Lepikhin et al., GShard,
    arXiv 2006.16668, algorithm 1). First choices of all tokens come before second ones. Second choices are all sent,
    and not at random by their weight, so that runs can be compared."""
    return _route_to_experts(probabilities, 2, slots)


def route_expert_choice(probabilities: torch.Tensor, slots: int) -> Routing:
    """Each expert takes the tokens that are most probable to be its own (Zhou et al., Mixture-of-Experts with Expert
    Choice Routing, arXiv 2202.09368, section 3.2). All slots are filled; a token goes to any number of experts, or
    to none."""
    weights, tokens = probabilities.T.topk(slots, dim=1)
    return Routing(len(probabilities), tokens, weights, torch.full_like(tokens[:, 0], slots), None)


ROUTERS = {
    "switch": RouterKind(route_switch, capacity=1.25, active=1),
    "gshard": RouterKind(route_gshard, capacity=2.0, active=2),
    "expert_choice": RouterKind(route_expert_choice, capacity=2.0, active=None),
}


def _route_to_experts(probabilities: torch.Tensor, choices: int, slots: int) -> Routing:
    """Route each token to `active` experts; the loss refers to the first of them."""
    experts = probabilities.shape[1]
    weights, chosen = probabilities.topk(choices, dim=1)
    if choices > 1:
        weights = weights / weights.sum(dim=1, keepdim=True)
    wanted = chosen.T.flatten()[:, None] == torch.arange(experts, device=chosen.device)  # first choices first
    first = wanted[: len(chosen)].sum(dim=0)
    tokens, kept = _fill_slots(wanted, weights.T.flatten(), slots, count=len(chosen))
    return Routing(len(chosen), tokens, kept, wanted.sum(dim=0), _compute_load_balance_loss(probabilities, first))


def _fill_slots(
    wanted: torch.Tensor, weights: torch.Tensor, slots: int, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token and weight of each slot: choices, in their order, take the next free one of the expert that they want.

    `wanted` is one-hot, (choices, experts), and `weights` (choices,); choice n is one of token n modulo `count`.
    """
    choices, experts = wanted.shape
    nth = (wanted.cumsum(dim=0) * wanted).sum(dim=1) - 1
    place = wanted.int().argmax(dim=1) * slots + nth
    place = torch.where(nth < slots, place, experts * slots)  # behind all slots: what found none
    empty = torch.full((experts * slots + 1,), choices, device=place.device)
    choice = empty.index_put((place,), torch.arange(choices, device=place.device))[:-1].view(experts, slots)
    padded = torch.cat([weights, weights.new_zeros(1)])
    return torch.where(choice == choices, count, choice % count), padded[choice]


def _compute_load_balance_loss(probabilities: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """experts x the sum over experts of share of tokens x mean probability (Switch, equation 4; GShard's is
    experts^2 times less, and is scaled like this in Mesh TensorFlow and what came after it)."""
    count, experts = probabilities.shape
    return experts * (first.to(probabilities.dtype) / count * probabilities.mean(dim=0)).sum()
