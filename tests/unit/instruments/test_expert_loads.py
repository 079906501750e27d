"""The load of experts, as routers of a model tell it."""

import pytest

from perfkit.instruments.expert_loads import expert_loads
from perfkit.workloads.moe import Moe
from tests.unit.techniques.tiny import applied, batches, new_state


@pytest.mark.parametrize("router", ["switch", "gshard", "expert_choice"])
def test_tokens_are_sent_taken_or_dropped(router):
    workload = Moe(router=router, seq_len=16, capacity=0.5).build()
    state = new_state(workload)
    loads = expert_loads(state, batches(state, 0)[0])
    assert [load.layer for load in loads] == [f"blocks.{index}.mlp" for index in range(4)]
    choices = {"switch": 32, "gshard": 64, "expert_choice": 16}[router]
    for load in loads:
        assert (load.tokens, sum(load.sent)) == (32, choices)
        assert load.taken == tuple(min(sent, 4) for sent in load.sent)
        least = 32 - sum(load.taken)  # each taken by one expert alone
        assert load.dropped == least if router == "switch" else load.dropped >= least
        assert (load.auxiliary_loss is None) == (router == "expert_choice")
        assert load.auxiliary_loss is None or 0.9 < load.auxiliary_loss < 4
    assert not any(module._forward_hooks for module in state.model.modules())


def test_they_are_named_as_built_and_called_once_where_blocks_run_again():
    state = applied("ckpt", new_state(Moe(seq_len=16).build())).state
    (batch,) = batches(state, 0)
    loads = expert_loads(state, batch)
    assert [load.layer for load in loads] == [f"blocks.{index}.mlp" for index in range(4)]
