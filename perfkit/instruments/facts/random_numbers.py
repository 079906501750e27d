"""Detects whether a part of training draws random numbers."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch.optim import Optimizer

from perfkit.devices.accelerator import get_accelerator


def read_generator_states(device: torch.device) -> list[torch.Tensor]:
    """The states of torch's generators that a step on this device may draw from."""
    accelerator = get_accelerator(device)
    own = [accelerator.runtime.get_rng_state(device)] if accelerator.has_generator else []
    return [torch.get_rng_state(), *own]


def has_drawn_numbers(before: list[torch.Tensor], device: torch.device) -> bool:
    """True if random numbers were drawn since."""
    return any(not torch.equal(*pair) for pair in zip(before, read_generator_states(device), strict=True))


@contextmanager
def watch_random_updates(optimizers: Iterable[Optimizer], device: torch.device) -> Iterator[dict[str, float]]:
    """While it is entered, the fact says of the updates whether any drew random numbers; absent without an update."""
    fact: dict[str, float] = {}
    before: list[torch.Tensor] = []

    def begin(*_of_the_call: object) -> None:
        before[:] = read_generator_states(device)

    def end(*_of_the_call: object) -> None:
        fact["random_updates"] = max(fact.get("random_updates", 0.0), float(has_drawn_numbers(before, device)))

    with ExitStack() as stack:
        for optimizer in optimizers:
            for handle in (optimizer.register_step_pre_hook(begin), optimizer.register_step_post_hook(end)):
                stack.callback(handle.remove)
        yield fact
