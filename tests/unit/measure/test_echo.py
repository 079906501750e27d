"""The perturbation that an echo starts from."""

import pytest
import torch
from torch import nn

from perfkit.measure.echo import perturb


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_parameter_moves_by_one_relative_rounding(dtype):
    model = nn.Linear(8, 8, dtype=dtype)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    perturb(model)
    eps = torch.finfo(dtype).eps
    for old, new in zip(before, model.parameters(), strict=True):
        change = (new.detach().double() / old.double() - 1).abs()
        assert change.min() >= 0.4 * eps  # a step down from a power of two is half as wide
        assert change.max() <= 2.1 * eps


def test_ranks_move_alike():
    first, second = nn.Linear(8, 8), nn.Linear(8, 8)
    second.load_state_dict(first.state_dict())
    perturb(first)
    perturb(second)
    assert torch.equal(first.weight, second.weight)


def test_frozen_integers_stay():
    model = nn.Linear(8, 8)
    model.weight = nn.Parameter(torch.ones(8, 8, dtype=torch.int8), requires_grad=False)
    before = model.bias.detach().clone()
    perturb(model)
    assert (model.weight == 1).all()
    assert not torch.equal(model.bias, before)
