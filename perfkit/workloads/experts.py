"""Mixtures of experts in the place of a transformer's MLPs: a router and the experts that it deals tokens to."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.workloads.routing import RouterKind, Routing, compute_slots


class Router(nn.Module):
    """Tokens (tokens, width) -> which expert takes which of them.

    The probabilities are never computed in less than the parameters' precision (Switch, section 2.4): a rounding may
    send a token elsewhere.
    """

    def __init__(self, width: int, experts: int, kind: RouterKind, capacity: float) -> None:
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.kind = kind
        self.capacity = capacity

    def forward(self, x: torch.Tensor) -> Routing:
        with torch.autocast(x.device.type, enabled=False):
            scores = self.gate(x.to(self.gate.weight.dtype))
        probabilities = scores.float().softmax(dim=-1)
        count, experts = probabilities.shape
        return self.kind.route(probabilities, compute_slots(count, experts, self.capacity))


class Experts(nn.Module):
    """As many MLPs, whose parameters have the expert as first dimension: (experts, slots, width) -> the same.

    All have as many slots, so that batched products do what grouped ones (`F.grouped_mm`) are for, in every dtype.
    """

    def __init__(self, width: int, experts: int, scale: float) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.empty(experts, width, 4 * width).normal_(std=0.02))
        self.up_bias = nn.Parameter(torch.zeros(experts, 1, 4 * width))
        self.down = nn.Parameter(torch.empty(experts, 4 * width, width).normal_(std=0.02 * scale))
        self.down_bias = nn.Parameter(torch.zeros(experts, 1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.gelu(torch.baddbmm(self.up_bias, x, self.up), approximate="tanh")
        return torch.baddbmm(self.down_bias, hidden, self.down)


class MixtureOfExperts(nn.Module):
    """(batch, time, width) -> the same: for each token the weighted output of its experts; 0 without one.

    `auxiliary` is the load-balancing loss of the last forward pass, kept within `keep_auxiliary_losses` only.
    """

    def __init__(self, router: Router, experts: nn.Module) -> None:
        super().__init__()
        self.router = router
        self.experts = experts
        self.keeps_auxiliary = False
        self.auxiliary: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, -2)
        routing: Routing = self.router(tokens)
        if self.keeps_auxiliary:
            self.auxiliary = routing.auxiliary
        padded = torch.cat([tokens, tokens.new_zeros(1, tokens.shape[1])])  # content of an empty slot
        out = self.experts(padded[routing.tokens]) * routing.weights[..., None]
        # Added by an op that has one order on a GPU, too, unlike index_add.
        summed = torch.zeros_like(padded).index_put((routing.tokens,), out.to(padded.dtype), accumulate=True)
        return summed[:-1].view_as(x)


@contextmanager
def keep_auxiliary_losses(model: nn.Module) -> Iterator[tuple[MixtureOfExperts, ...]]:
    """While it is entered, a forward pass of `model` leaves the losses that even out the load in these layers.

    Not what a block computes again in backward, which would be kept beyond it.
    """
    layers = tuple(module for module in model.modules() if isinstance(module, MixtureOfExperts))
    for layer in layers:
        layer.keeps_auxiliary = True
    try:
        yield layers
    finally:
        for layer in layers:
            layer.keeps_auxiliary, layer.auxiliary = False, None
