"""The states of the random generator that checkpointing keeps, counted by hand."""

from itertools import accumulate

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from perfkit.plan.rehearsal.fake_memory import FakeMemory
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.random_states import record_random_states

STATE_BYTES = torch.get_rng_state().nbytes


def drop_twice(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(torch.nn.functional.dropout(x, 0.5), 0.25)


@pytest.mark.parametrize("blocks", [1, 5])
@pytest.mark.parametrize("preserved", [True, False])
def test_a_checkpoint_keeps_a_state_and_its_recomputation_another(blocks: int, preserved: bool) -> None:
    memory = FakeMemory()
    with FakeTensorMode(), memory.record_allocations(OpScratchProbe()), record_random_states(memory):
        x = torch.ones(3, requires_grad=True)
        memory.begin()
        y = x
        for _ in range(blocks):
            y = checkpoint(drop_twice, y, use_reentrant=False, preserve_rng_state=preserved)
        y.sum().backward()
        del y
    states = [event.size for event in memory.recorded.allocations if abs(event.size) == STATE_BYTES]
    held = list(accumulate(states))
    assert (max(held, default=0), sum(states)) == ((blocks + 1) * STATE_BYTES * preserved, 0)


def test_a_state_is_still_the_generators() -> None:
    with FakeTensorMode(), record_random_states(FakeMemory()):
        state = torch.get_rng_state()
        drawn = torch.random.get_rng_state()
    assert torch.equal(state, drawn)
