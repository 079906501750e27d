"""Optimizers as workloads make them: parameter groups, several, and what techniques make of them."""

from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.techniques.parallel.zero1 import shard_optimizer
from perfkit.workloads.workload import make_optimizers
from tests.fixtures.workloads import grouped
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, relative_difference, train

DECAYED = 1 + 2 * grouped.BLOCKS


def groups_of(optimizer: torch.optim.Optimizer) -> list[tuple[int, float]]:
    return [(len(group["params"]), group["weight_decay"]) for group in optimizer.param_groups]


@pytest.mark.parametrize("variant", ["baseline", "ckpt", "offload:what=optimizer:to=disk"])
def test_groups_by_names_and_types_are_found_behind_techniques(variant: str) -> None:
    """The workload finds its modules under their own names, though techniques have put wrappers around them."""
    made = applied(variant, new_state(grouped.build()))
    (optimizer,) = made.state.optimizers.values()
    everything = len(list(made.state.model.parameters()))
    assert groups_of(optimizer) == [(DECAYED, 2.0), (everything - DECAYED, 0.0)]
    expected = train(applied("baseline", new_state(grouped.build())).state, steps=3)
    assert relative_difference(train(made.state, steps=3), expected) <= 1e-5
    undecayed = train(applied("baseline", new_state(grouped.build(weight_decay=0.0))).state, steps=3)
    assert relative_difference(undecayed, expected) > 1e-3  # or a lost group would not show
    made.state.close()


def test_wrappers_are_back_after_the_optimizer_was_built() -> None:
    made = applied("ckpt", new_state(grouped.build()))
    assert [type(block).__name__ for block in made.state.blocks] == ["CheckpointWrapper"] * grouped.BLOCKS


@pytest.fixture(params=[0, 1])
def rank(request: pytest.FixtureRequest):
    """One of two ranks, the other not there: collectives do nothing."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=2)
    yield request.param
    dist.destroy_process_group()


def tensors(*sizes: int) -> list[nn.Parameter]:
    return [nn.Parameter(torch.ones(size)) for size in sizes]


def test_zero1_keeps_the_groups_of_the_workload(rank: int) -> None:
    """Dealt by size, groups one after the other: 8 and 2 and 1 and 1 to rank 0, 6 and 4 and 1 to rank 1."""
    decayed, others = tensors(6, 8, 4), tensors(1, 2, 1, 1)
    groups = [
        {"params": decayed, "weight_decay": 0.5, "lr": 0.1},
        {"params": others, "weight_decay": 0.0, "betas": (0.5, 0.9)},
    ]
    whole = shard_optimizer(torch.optim.AdamW(groups, lr=1e-3))
    local = whole.optim
    assert type(local) is torch.optim.AdamW
    assert groups_of(whole) == [(3, 0.5), (4, 0.0)]
    sizes = [sorted(p.numel() for p in group["params"]) for group in local.param_groups]
    assert sizes == [[[8], [1, 1, 2]], [[4, 6], [1]]][rank]
    assert [(group["weight_decay"], group["lr"], group["betas"]) for group in local.param_groups] == [
        (0.5, 0.1, (0.9, 0.999)),
        (0.0, 1e-3, (0.5, 0.9)),
    ]


def test_zero1_of_a_group_that_leaves_a_rank_empty_handed(rank: int) -> None:
    """The groups must stay beside those of the whole, or the one that is left takes the other's options."""
    (large,), (small,) = tensors(8), tensors(2)
    for parameter in (large, small):
        parameter.grad = torch.zeros_like(parameter)
    whole = shard_optimizer(torch.optim.SGD([{"params": [large], "weight_decay": 0.5}, {"params": [small]}], lr=1.0))
    whole.step()
    assert (large.tolist()[0], small.tolist()[0]) == [(0.5, 1.0), (1.0, 1.0)][rank]


def test_zero1_of_an_optimizer_that_makes_its_state_at_once(rank: int) -> None:
    """Adagrad does; of other ranks' parameters nothing is held."""
    whole = shard_optimizer(torch.optim.Adagrad(tensors(8, 6), lr=1.0))
    assert [state["sum"].numel() for state in whole.optim.state.values()] == [[8], [6]][rank]


def test_zero1_of_named_parameters(rank: int) -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    whole = shard_optimizer(torch.optim.AdamW(model.named_parameters()))
    model(torch.ones(1, 3)).sum().backward()
    whole.step()
    assert len(whole.optim.state) == 2


def test_zero1_of_an_optimizer_that_evaluates_the_loss_is_refused(rank: int) -> None:
    whole = shard_optimizer(torch.optim.LBFGS(tensors(8, 6)))
    with pytest.raises(UnavailableError, match=r"zero1 .*LBFGS"):
        whole.step(lambda: torch.tensor(0.0))


def two(model: nn.Module) -> dict[str, torch.optim.Optimizer]:
    """SGD for the matrices within the blocks, AdamW for all others, as with Muon."""
    matrices = [p for name, p in model.named_parameters() if name.startswith("blocks.") and p.dim() == 2]
    others = [p for name, p in model.named_parameters() if not (name.startswith("blocks.") and p.dim() == 2)]
    return {
        "matrices": torch.optim.SGD(matrices, lr=0.01, momentum=0.9),
        "others": torch.optim.AdamW(others, lr=1e-3),
    }


@pytest.mark.parametrize("variant", ["ckpt", "amp:dtype=fp16", "offload:what=optimizer:to=disk"])
def test_several_optimizers_of_one_model_are_all_updated(variant: str) -> None:
    workload = replace(WORKLOAD, build_optimizer=two)
    plain = applied("baseline", new_state(workload))
    expected = train(plain.state)
    made = applied(variant, new_state(workload))
    assert list(made.state.optimizers) == ["matrices", "others"]
    assert relative_difference(train(made.state), expected) <= made.parity.relative
    for optimizer in made.state.optimizers.values():
        assert optimizer.state
    made.state.close()


def test_an_overflow_seen_by_one_optimizer_leaves_the_others_update_in() -> None:
    """Each is checked by itself, and the scale is halved once."""
    made = applied("amp:dtype=fp16", new_state(replace(WORKLOAD, build_optimizer=two)))
    matrices, others = (optimizer.param_groups[0]["params"][0] for optimizer in made.state.optimizers.values())
    before = matrices.detach().clone(), others.detach().clone()
    train(made.state, steps=1, after_backward=lambda: matrices.grad.fill_(float("inf")))
    assert (torch.equal(matrices, before[0]), torch.equal(others, before[1])) == (True, False)
    assert made.state.skipped_updates == [True, False]


def test_a_list_of_optimizers_is_named_by_places() -> None:
    workload = replace(WORKLOAD, build_optimizer=lambda model: [*two(model).values()])
    assert list(make_optimizers(workload, workload.build_model())) == ["0", "1"]


@pytest.mark.parametrize("returned", [None, [], {}, {"adam": nn.Linear(1, 1)}])
def test_what_is_no_optimizer_is_refused_by_what_it_is(returned: object) -> None:
    workload = replace(WORKLOAD, build_optimizer=lambda model: returned)
    with pytest.raises(UsageError, match=rf"^build_optimizer .*\b{type(returned).__name__};"):
        make_optimizers(workload, nn.Linear(1, 1))
