"""Neighboring blocks run as one: what Chen et al. call a segment."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn


class BlockSegment(nn.Module):
    """Blocks that run one after the other in the call of the first; the others are replaced by a `JoinedBlock`."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Each block takes the result of the one before it, and the same other arguments."""
        for block in self.blocks:
            x = block(x, *args, **kwargs)
        return x

    def __getattr__(self, name: str) -> Any:
        """Delegate attributes that models read from a block to the first block."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            (blocks,) = self.children()
            return getattr(next(blocks.children()), name)


class JoinedBlock(nn.Module):
    """Replaces a block that has run with its segment: passes its input on."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.of = (block,)  # its parameters belong to the segment

    def forward(self, x: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        return x

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["of"][0], name)


def replace_module(model: nn.Module, name: str, replacement: nn.Module) -> None:
    """Put the replacement into the place of the module of this name: everywhere, as tied layers have several."""
    replaced = model.get_submodule(name)
    places = [
        (parent, key) for parent in model.modules() for key, child in parent._modules.items() if child is replaced
    ]
    for parent, key in places:
        parent._modules[key] = replacement


def join_blocks(model: nn.Module, names: Sequence[str]) -> BlockSegment:
    """Put a `JoinedBlock` into the place of each block but the first, which the caller replaces by the segment."""
    blocks = [model.get_submodule(name) for name in names]
    for name, block in zip(names[1:], blocks[1:], strict=True):
        model.set_submodule(name, JoinedBlock(block))
    return BlockSegment(blocks)
