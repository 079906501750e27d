"""Lets a recomputed forward read and change buffers as the first one did, without changing them twice.

Batch norm updates running statistics, spectral norm its vectors, a codebook its averages: in every forward pass.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

_UNVERSIONED = frozenset({"running_mean", "running_var"})  # batch norm's ops change them without a new version


class _Place(NamedTuple):
    module: nn.Module
    name: str

    @property
    def buffer(self) -> torch.Tensor | None:
        return self.module._buffers[self.name]


_Values = dict[_Place, torch.Tensor]


def has_buffers(block: nn.Module) -> bool:
    """True if a module of the block registers one."""
    return any(module._buffers for module in block.modules())


class RerunBuffers:
    """The buffers that a block's forward pass changes: the first pass finds them."""

    def __init__(self, block: nn.Module) -> None:
        self._places = [_Place(module, name) for module in block.modules() for name in module._buffers]
        self._changing: set[_Place] | None = None

    def checkpoint(self, block: nn.Module, *args: Any, **kwargs: Any) -> Any:
        """Call the block checkpointed, as `checkpoint` without reentry does; `kwargs` are the options of both."""
        if torch.compiler.is_compiling():  # compiled code changes buffers once, after the graph
            return checkpoint(block, *args, use_reentrant=False, **kwargs)
        before: _Values | None = None

        def run(*args: Any, **kwargs: Any) -> Any:
            nonlocal before
            if before is None:
                before = {}
                watched = self._record_changing(before)
            else:
                watched = _replace_buffers(before)
            with watched:
                return block(*args, **kwargs)

        return checkpoint(run, *args, use_reentrant=False, **kwargs)

    @contextmanager
    def _record_changing(self, before: _Values) -> Iterator[None]:
        """Adds the values from before this pass of the buffers that it changes."""
        started = {place: _get_version(place) for place in self._places}
        wanted = [place for place in self._places if self._changing is None or place in self._changing]
        copies = _copy_buffers((place, place.buffer) for place in wanted)
        yield
        changed = {place for place in started if place.name in _UNVERSIONED or _get_version(place) != started[place]}
        if self._changing is None:  # once: it waits for the device
            changed |= {place for place, value in copies.items() if _has_changed(place.buffer, value)}
        self._changing = changed | (self._changing or set())
        before.update((place, value) for place, value in copies.items() if place in self._changing)


@contextmanager
def _replace_buffers(values: _Values) -> Iterator[None]:
    """While it is entered, the buffers are copies of `values`."""
    after = [(place, place.buffer) for place in values]
    for place, value in _copy_buffers(values.items()).items():
        place.module._buffers[place.name] = value
    try:
        yield
    finally:  # a recomputation ends with an exception once it has all that backward needs
        for place, buffer in after:
            place.module._buffers[place.name] = buffer


def _get_version(place: _Place) -> tuple[int, int] | None:
    return None if place.buffer is None else (id(place.buffer), place.buffer._version)


def _has_changed(buffer: torch.Tensor | None, before: torch.Tensor) -> bool:
    """True if the values differ: writes to `buffer.data` give it no new version. False for fake tensors."""
    return type(buffer) is torch.Tensor and not torch.equal(buffer, before)


@torch.no_grad()
def _copy_buffers(buffers: Iterable[tuple[_Place, torch.Tensor | None]]) -> _Values:
    """Copy buffers, all of a dtype in one call: there may be hundreds of a few values each."""
    groups: defaultdict[tuple[torch.device, torch.dtype], _Values] = defaultdict(dict)
    for place, buffer in buffers:
        if buffer is not None:
            groups[buffer.device, buffer.dtype][place] = buffer
    copies: _Values = {}
    for group in groups.values():
        values = [torch.empty_like(buffer) for buffer in group.values()]
        torch._foreach_copy_(values, [*group.values()])
        copies.update(zip(group, values, strict=True))
    return copies
