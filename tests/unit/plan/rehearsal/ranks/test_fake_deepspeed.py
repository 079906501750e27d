"""The parts of DeepSpeed that need other ranks, which a plan answers."""

import sys
from types import ModuleType

import pytest
import torch
from torch.optim import SGD

from perfkit.core.allocations import PARAMETER
from perfkit.plan.rehearsal.ranks.fake_deepspeed import list_optimizer_parameters, patch_deepspeed, uses_deepspeed
from perfkit.techniques.parallel.zero1 import Zero1
from perfkit.techniques.parallel.zero23 import Zero3

COMPARE = "assert_ints_same_as_other_ranks"
MODULES = (
    "deepspeed",
    "deepspeed.comm.comm",
    "deepspeed.comm.torch",
    "deepspeed.utils.groups",
    "deepspeed.runtime.zero.stage3",
    "deepspeed.runtime.zero.partition_parameters",
    "deepspeed.runtime.zero.partitioned_param_coordinator",
)


def refuse(*_: object) -> None:
    raise AssertionError("there are no other ranks")


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """DeepSpeed's modules without all that a plan leaves as it is."""
    made = {name: ModuleType(name) for name in MODULES}
    for name, module in made.items():
        vars(module).update({COMPARE: refuse, "build_shm_op": refuse, "cdb": None})
        monkeypatch.setitem(sys.modules, name, module)
    return made


def test_nothing_is_asked_of_other_ranks_and_their_groups_are_forgotten(modules: dict[str, ModuleType]) -> None:
    with patch_deepspeed():
        for name in MODULES[4:]:
            getattr(modules[name], COMPARE)([1, 2])
        assert modules["deepspeed.comm.torch"].build_shm_op() is None
        modules["deepspeed.comm.comm"].cdb = "the group of a plan"
    assert modules["deepspeed.comm.comm"].cdb is None
    assert getattr(modules[MODULES[4]], COMPARE) is refuse


def test_only_deepspeeds_stages_use_it() -> None:
    assert uses_deepspeed((Zero1(), Zero3(engine="deepspeed")))
    assert not uses_deepspeed((Zero1(), Zero3()))


def test_what_an_optimizer_updates_outside_of_the_model_is_a_parameter() -> None:
    ours, flat = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(7))
    optimizer = SGD([ours, flat[2:5].detach().requires_grad_()], lr=0.1)
    known = list_optimizer_parameters([SGD([ours], lr=0.1)], [])
    assert [block.size_bytes for block in known] == [12]
    assert [(block.category, block.size_bytes) for block in list_optimizer_parameters([optimizer], known)] == [
        (PARAMETER, 28)
    ]
