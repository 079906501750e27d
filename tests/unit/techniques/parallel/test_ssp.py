"""Updates by gradients of earlier steps, with sums that arrive when they are waited for; real ranks: test_sharding."""

from unittest.mock import patch

import pytest
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import parse_variants
from perfkit.techniques.base.mesh import RankMesh
from perfkit.techniques.base.state import World
from perfkit.techniques.base.technique import RankRequirement
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.local_sgd import LocalSgd
from perfkit.techniques.parallel.ssp import Ssp, make_late_update
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import gan
from tests.unit.techniques.tiny import new_state

RANKS = 3


class Sum:
    """An all-reduce over ranks that all have the same: nothing is there before it is waited for."""

    def __init__(self, tensor):
        self.tensor, self.own = tensor, tensor.clone()
        tensor.fill_(float("nan"))

    def wait(self):
        self.tensor.copy_(RANKS * self.own)


@pytest.mark.parametrize("staleness", [1, 3])
def test_the_gradient_of_a_step_is_applied_so_many_steps_later(staleness):
    parameters = [torch.zeros(2, 3, requires_grad=True), torch.zeros(4, dtype=torch.float64, requires_grad=True)]
    optimizer, facts = torch.optim.SGD(parameters, lr=1.0), {}
    update = make_late_update(lambda each, _closure: each.step(), staleness, RANKS, facts)
    found = []
    with patch("torch.distributed.all_reduce", lambda tensor, async_op: Sum(tensor)):
        for step in range(6):
            for parameter in parameters:
                parameter.grad = torch.full_like(parameter, 10.0**step)
            update(optimizer, None)
            optimizer.zero_grad()
            assert [each.unique().numel() for each in parameters] == [1, 1]
            found.append([-each.flatten()[0].item() for each in parameters])
    sums = [float(sum(10**made for made in range(step + 1 - staleness))) for step in range(6)]
    assert found == [[each, each] for each in sums]
    assert facts == {"staleness": staleness}


def test_an_update_that_evaluates_the_loss_is_refused():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    with pytest.raises(UnavailableError, match=r"^SGD ", check=has_id("skip.closure")):
        make_late_update(lambda *_: None, 1, RANKS, {})(optimizer, lambda: torch.zeros(()))


@pytest.mark.parametrize("technique", [Ssp(), LocalSgd()])
def test_a_step_of_its_own_is_refused(technique):
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        technique.apply(new_state(gan.build(), world=World(size=2)))


def test_groups_are_several():
    assert LocalSgd(group=3).ranks() == RankRequirement(6, 3)


@pytest.mark.parametrize("technique", [Ssp(), LocalSgd()])
def test_ranks_that_others_take_are_refused(technique):
    state = new_state(world=World(size=4))
    state.mesh = RankMesh("cpu", 0, {"dp": 2, "tp": 2})
    with pytest.raises(UnavailableError, match="other techniques"):
        technique.apply(state)


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ("local_sgd:within=2", "within .*group=2"),
        ("local_sgd:period=4:within=3:group=2", r"\bperiod=6$"),
        ("local_sgd:period=7:within=3:group=2", r"\bperiod=6 or period=9$"),
        ("local_sgd:period=3:within=3:group=2", r"\bperiod=6$"),
        ("local_sgd:period=1", "period"),
        ("ssp:staleness=0", "staleness"),
        ("ssp+local_sgd", "choose one"),
        ("ssp+zero1", "choose one"),
        ("ssp+amp:dtype=fp16", "scale may have changed"),
        ("local_sgd+offload:what=parameters", "parameters are offloaded"),
    ],
)
def test_what_does_not_go_is_refused(variant, reason):
    (specs,) = parse_variants(variant)
    with pytest.raises(UsageError, match=reason):
        compose_techniques(specs)
