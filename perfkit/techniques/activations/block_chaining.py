"""Checks that blocks are called one after the other, each with the result of the one before it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn

from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.trial import draw_trial_batch


class _BlockCall(NamedTuple):
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: object


def find_unchained_blocks(state: TrainState, segments: Sequence[Sequence[str]]) -> str:
    """Find the blocks of a segment that cannot run as one, from a forward pass; empty if all can.

    Each must be called right after the one before it, with that one's result as its input.
    """
    names = [name for segment in segments for name in segment]
    with draw_trial_batch(state) as batch, _record_calls(state.model, names) as calls:
        if state.workload.step is None:
            state.loss(batch)
        else:
            run_trial_step(state, batch)
    follower = {one: other for segment in segments for one, other in pairwise(segment)}
    for place, call in enumerate(calls):
        if call.name in follower and (
            place + 1 == len(calls) or not _is_continued_by(call, calls[place + 1], follower)
        ):
            return f"{call.name} and {follower[call.name]}"
    alone = set(follower.values()) - {call.name for call in calls}
    return " and ".join(sorted(alone)[:2])


@contextmanager
def _record_calls(model: nn.Module, names: Sequence[str]) -> Iterator[list[_BlockCall]]:
    """The calls of some modules in their order."""
    calls: list[_BlockCall] = []

    def recorded(name: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object) -> None:
            calls.append(_BlockCall(name, args, kwargs, output))

        return hook

    handles = [model.get_submodule(name).register_forward_hook(recorded(name), with_kwargs=True) for name in names]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _is_continued_by(call: _BlockCall, after: _BlockCall, follower: dict[str, str]) -> bool:
    return (
        after.name == follower[call.name]
        and isinstance(call.output, torch.Tensor)
        and bool(after.args)
        and after.args[0] is call.output
        and len(call.args) == len(after.args)
        and all(map(_is_same_value, call.args[1:], after.args[1:]))
        and call.kwargs.keys() == after.kwargs.keys()
        and all(_is_same_value(value, after.kwargs[key]) for key, value in call.kwargs.items())
    )


def _is_same_value(one: object, other: object) -> bool:
    return one is other or (isinstance(one, bool | int | float | str) and one == other)
