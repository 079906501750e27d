"""Lets backward passes on fake tensors add and scatter in place, where torch does so with real ones.

torch's engine and some formulas of gradients write a new tensor if a dispatch mode is on (`isTensorSubclassLike`), and
tensors are fake in a mode. With real tensors the engine adds two gradients of one tensor in place if it alone refers to
the first (`can_accumulate_inplace`, torch/csrc/autograd/input_buffer.cpp).
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch._C import _storage_Use_Count

from perfkit.cost.torch_dispatch import TorchDispatchMode, disable_modes, find_autograd_node
from perfkit.plan.rehearsal.op_watcher import find_top_watcher

_aten = torch.ops.aten
_ADD = _aten.add.Tensor
_ADD_IN_PLACE = _aten.add_.Tensor
_RUN_BACKWARD = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
_WRAPPERS = ("torch._compile", "torch._dynamo.eval_frame")  # around every dispatch mode

# What formulas of gradients do in place to a tensor of zeros that they made.
_FILLS = {
    _aten.index_add.default: _aten.index_add_.default,
    _aten.index_fill.int_Tensor: _aten.index_fill_.int_Tensor,
    _aten.index_put.default: _aten.index_put_.default,
    _aten.put.default: _aten.put_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter_add.default: _aten.scatter_add_.default,
}

# What single formulas do in place to any tensor that they made, by node.
_OF_NODES = {
    "BinaryCrossEntropyWithLogitsBackward0": {
        _aten.sub.Tensor: _aten.sub_.Tensor,
        _aten.mul.Tensor: _aten.mul_.Tensor,
        _aten.div.Tensor: _aten.div_.Tensor,
    }
}


class References(NamedTuple):
    """References to a tensor as a dispatch mode sees it: to the tensor, to its storage, to its Python object."""

    tensor: int
    storage: int
    object: int


class GradientSums:
    """Ops that a backward pass, called by this thread, runs in place with real tensors.

    `sole` are the references to a gradient that the engine alone refers to.
    """

    def __init__(self, sole: References) -> None:
        self._sole = sole
        self._node: tuple[str, int] = "", -1
        self._made: set[int] = set()  # tensors that the node's formula made, by address

    def choose_op(self, func: Any, args: tuple[Any, ...], caller: FrameType) -> Any:
        """The op to run for one that a mode was called with; None if another than torch's engine called it."""
        node = find_autograd_node()
        if node is None or torch.is_grad_enabled() or not _is_called_by_engine(caller):
            return None
        name = node.name()
        if (name, node._sequence_nr()) != self._node:
            self._node = name, node._sequence_nr()
            self._made = set()
        made = bool(args) and isinstance(args[0], torch.Tensor) and args[0]._cdata in self._made
        within = (_FILLS.get(func) or _OF_NODES.get(name, {}).get(func)) if made else None
        if func is _ADD and (not made or _has_joined_edges(node)) and _is_added_in_place(args, self._sole):
            within = _ADD_IN_PLACE
        return within or func

    def remember(self, result: Any) -> None:
        """Remember what the engine's op made."""
        if isinstance(result, torch.Tensor):
            self._made.add(result._cdata)


class InplaceGradients(TorchDispatchMode):
    """Runs the ops of `sums` where another mode is above the watcher of a rehearsal."""

    def __init__(self, sums: GradientSums) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sums = sums

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code is compiled and runs within the mode."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        chosen = self._sums.choose_op(func, args, sys._getframe(1))
        if chosen is None:
            return func(*args, **(kwargs or {}))
        result = chosen(*args, **(kwargs or {}))
        self._sums.remember(result)
        return result


@contextmanager
def add_gradients_in_place() -> Iterator[None]:
    """Run `GradientSums` in every backward pass inside this context, above all other dispatch modes."""
    sole = _count_sole_references()

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        sums, watcher = GradientSums(sole), find_top_watcher()
        with InplaceGradients(sums) if watcher is None else watcher.sum_gradients(sums):
            return _RUN_BACKWARD(*args, **kwargs)

    with patch.object(torch.autograd, "_engine_run_backward", run_backward):
        yield


def _is_called_by_engine(frame: FrameType | None) -> bool:
    """True if no Python code is between the engine and an op: no hook, no custom function, no recomputation."""
    while frame is not None and frame.f_globals.get("__name__") in _WRAPPERS:
        frame = frame.f_back
    return frame is not None and frame.f_code is _RUN_BACKWARD.__code__


def _has_joined_edges(node: Any) -> bool:
    """True if two gradients of one node are of the same tensor, as in `x * x`."""
    edges = [edge for edge in node.next_functions if edge[0] is not None]
    return len(set(edges)) < len(edges)


def _is_added_in_place(args: tuple[Any, ...], sole: References) -> bool:
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return (
        len(tensors) == 2
        and all(each.layout is torch.strided for each in tensors)
        and _aten.is_non_overlapping_and_dense.default(tensors.pop(0))
        and _count_references(args) == sole
    )


def _count_references(args: tuple[Any, ...]) -> References:
    """References to the first of an op's arguments; those of the way here are the same for each."""
    storage = args[0].untyped_storage()
    return References(args[0]._use_count(), _storage_Use_Count(storage._cdata), sys.getrefcount(args[0]))


@lru_cache(maxsize=1)
def _count_sole_references() -> References:
    """References to a gradient to which none but the engine refers, found by one real sum of two."""
    counted: list[References] = []

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            if func is _ADD and not torch.is_grad_enabled():
                counted.append(_count_references(args))
            return func(*args, **(kwargs or {}))

    with disable_modes(), torch.enable_grad():
        x = torch.ones(2, requires_grad=True) * 1
        loss = (x.sin() + x.cos()).sum()
        with Counting():  # type: ignore[no-untyped-call]
            _RUN_BACKWARD((loss,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True)
    (sole,) = counted
    return sole
