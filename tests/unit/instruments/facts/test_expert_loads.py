"""The load of experts, as routers of a model tell it."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from perfkit.instruments.facts.expert_loads import measure_expert_loads
from perfkit.workloads.moe import Moe
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state


@pytest.mark.parametrize("router", ["switch", "gshard", "expert_choice"])
def test_tokens_are_sent_taken_or_dropped(router):
    workload = Moe(router=router, seq_len=16, capacity=0.5).build()
    state = new_state(workload)
    loads = measure_expert_loads(state, batches(state, 0)[0])
    assert [load.layer for load in loads] == [f"blocks.{index}.mlp" for index in range(4)]
    choices = {"switch": 32, "gshard": 64, "expert_choice": 16}[router]
    for load in loads:
        assert (load.tokens, sum(load.routed_tokens)) == (32, choices)
        assert load.accepted_tokens == tuple(min(sent, 4) for sent in load.routed_tokens)
        least = 32 - sum(load.accepted_tokens)  # each taken by one expert alone
        assert load.dropped_tokens == least if router == "switch" else load.dropped_tokens >= least
        assert (load.auxiliary_loss is None) == (router == "expert_choice")
        assert load.auxiliary_loss is None or 0.9 < load.auxiliary_loss < 4
    assert not any(module._forward_hooks for module in state.model.modules())


def test_they_are_named_as_built_and_called_once_where_blocks_run_again():
    state = applied("ckpt", new_state(Moe(seq_len=16).build())).state
    (batch,) = batches(state, 0)
    loads = measure_expert_loads(state, batch)
    assert [load.layer for load in loads] == [f"blocks.{index}.mlp" for index in range(4)]


def test_a_stage_of_a_pipeline_tells_none():
    """It has a part of the experts, and its forward pass is not the model's."""
    state = new_state(Moe(seq_len=16, router="expert_choice").build())
    (batch,) = batches(state, 0)
    state.own_forward = lambda batch: pytest.fail("the forward pass of a stage is no call of all routers")
    for parameter in [*state.model.blocks[2].mlp.experts._parameters]:
        delattr(state.model.blocks[2].mlp.experts, parameter)
    assert measure_expert_loads(state, batch) == ()


def test_experts_are_counted_by_what_the_module_says():
    """As of DBRX, whose parameters have experts x width of a layer within as first dimension."""

    class Experts(nn.Module):
        num_experts = 3

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3 * 5, 16))

        def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, _weights: torch.Tensor) -> torch.Tensor:
            return tokens * self.weight.sum()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.experts = Experts()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = x.flatten(0, 1)
            chosen = torch.zeros(len(tokens), 1, dtype=torch.int64)
            return self.experts(tokens, chosen, torch.ones(len(tokens), 1)).view_as(x)

    workload = replace(
        WORKLOAD, build_model=Model, blocks=lambda _model: (), expert_parallel=lambda _model: ("experts",)
    )
    state = new_state(workload)
    (batch,) = batches(state, 0)
    (load,) = measure_expert_loads(state, batch)
    assert load.routed_tokens == (load.tokens, 0, 0)
