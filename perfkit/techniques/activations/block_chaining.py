"""Checks that blocks are called one after the other, each with the result of the one before it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import nn

from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.trial import discard_saved_tensors, draw_trial_microbatch


class _BlockCall(NamedTuple):
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: object


def find_unchained_blocks(state: TrainState, segments: Sequence[Sequence[str]]) -> str:
    """Find the blocks of a segment that cannot run as one, from a forward pass; empty if all can.

    Each must be called right after the one before it, with that one's result as its input.
    """
    follower = {one: other for segment in segments for one, other in pairwise(segment)}
    names = [name for segment in segments for name in segment]
    with draw_trial_microbatch(state) as batch, _record_calls(state.model, names, follower) as calls:
        if state.workload.step is None:
            with discard_saved_tensors():  # those of the unmodified model may not fit
                state.loss(batch)
        else:
            run_trial_step(state, batch)
    for call in calls:
        if call.name in follower and not call.continued:
            return f"{call.name} and {follower[call.name]}"
    alone = set(follower.values()) - {call.name for call in calls}
    return " and ".join(sorted(alone)[:2])


class _RecordedCall(NamedTuple):
    name: str
    continued: bool


@contextmanager
def _record_calls(model: nn.Module, names: Sequence[str], follower: Mapping[str, str]) -> Iterator[list[_RecordedCall]]:
    """The calls of some modules in their order; only the tensors of the last one are kept."""
    calls: list[_RecordedCall] = []
    last: list[_BlockCall] = []

    def recorded(name: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: object) -> None:
            call = _BlockCall(name, args, kwargs, output)
            if last and last[0].name in follower and _is_continued_by(last[0], call, follower):
                calls[-1] = calls[-1]._replace(continued=True)
            last[:] = [call]
            calls.append(_RecordedCall(name, continued=False))

        return hook

    handles = [model.get_submodule(name).register_forward_hook(recorded(name), with_kwargs=True) for name in names]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _is_continued_by(call: _BlockCall, after: _BlockCall, follower: Mapping[str, str]) -> bool:
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
