"""Wraps a model with FSDP2, block by block, and runs steps of several microbatches with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.fsdp import FSDPModule

from perfkit.techniques.base.state import TrainState


def wrap_blocks(
    state: TrainState, wrap_block: Callable[[nn.Module], object], wrap_model: Callable[[nn.Module], object]
) -> None:
    """Wrap every block in place, then the rest of each model; the wrappers average gradients."""
    roots = tuple(state.models.values())
    for block in state.blocks:
        wrap_block(block)
    for root in roots:
        wrap_model(root)
        _patch_zero_grad(root)

    def sync(on: bool) -> None:
        for root in roots:
            assert isinstance(root, FSDPModule)
            root.set_requires_gradient_sync(on)

    @contextmanager
    def no_sync() -> Iterator[None]:
        sync(False)
        try:
            yield
        finally:
            sync(True)

    state.no_sync = no_sync
    state.gradients_reduced = True


def _patch_zero_grad(model: nn.Module) -> None:
    """Have `model.zero_grad()` clear the gradients of the shards, which the optimizer updates by, at any time.

    Between forward and backward `zero2` keeps whole parameters in the modules, of which `nn.Module.zero_grad` would
    clear the gradients that they do not have.
    """
    shards = tuple(model.parameters())

    def zero_grad(set_to_none: bool = True) -> None:
        for shard in shards:
            if set_to_none:
                shard.grad = None
            elif shard.grad is not None:
                shard.grad.zero_()

    model.zero_grad = zero_grad  # type: ignore[method-assign]
