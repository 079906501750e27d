"""Records the states of the CPU's random generator that a program keeps, which are no fake tensors.

`torch.utils.checkpoint` keeps one for each block from forward to its recomputation, and one more while that runs.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from perfkit.plan.rehearsal.fake_memory import FakeMemory


@contextmanager
def record_random_states(memory: FakeMemory) -> Iterator[None]:
    """Record each state that `torch.get_rng_state` returns inside this context."""
    get_state = torch.get_rng_state

    def get_recorded_state() -> torch.Tensor:
        state = get_state()
        memory.record_storage(state.untyped_storage())
        return state

    with ExitStack() as stack:
        for module in (torch, torch.random):
            stack.enter_context(patch.object(module, "get_rng_state", get_recorded_state))
        yield
