"""Rules that infer shapes and dtypes of an op's new tensors from its arguments, without torch."""

import math
from collections.abc import Callable
from typing import NamedTuple

from perfkit.cost.calls.args import (
    Args,
    Shape,
    broadcast_shapes,
    get_dtype_argument,
    get_integer,
    get_integers,
    get_optional_tensor,
    get_tensor,
    infer_result_dtype,
    walk_tensors,
)
from perfkit.cost.calls.dtypes import UNKNOWN


class OpOutput(NamedTuple):
    """A possible output of an op; `dtype` is UNKNOWN where its inputs do not show it."""

    shape: Shape
    dtype: str


OutputRule = Callable[[Args], tuple[OpOutput, ...]]


def make_sized(size_at: int, dtype_at: int, like: int | None = None) -> OutputRule:
    """A size among the arguments: `empty`, `new_empty`."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        dtype = get_dtype_argument(args, dtype_at) or (UNKNOWN if like is None else get_tensor(args, like).dtype)
        return (OpOutput(get_integers(args, size_at), dtype),)

    return rule


def infer_resized(args: Args) -> tuple[OpOutput, ...]:
    return (OpOutput(get_integers(args, 1), get_tensor(args, 0).dtype),)


def make_like(*at: int, dtype_at: int | None = None) -> OutputRule:
    """Outputs with the shape of some of the inputs."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        asked = None if dtype_at is None else get_dtype_argument(args, dtype_at)
        models = (get_optional_tensor(args, index) for index in at)
        return tuple(OpOutput(model.shape, asked or model.dtype) for model in models if model is not None)

    return rule


def make_combined(dtype: str | None = None) -> OutputRule:
    """The inputs combined element by element."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        inputs = tuple(walk_tensors(args))
        return (OpOutput(broadcast_shapes(operand.shape for operand in inputs), dtype or infer_result_dtype(inputs)),)

    return rule


def make_product(first: int) -> OutputRule:
    """The product of the matrices (or batches of them) at `first` and after it."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        a, b = get_tensor(args, first), get_tensor(args, first + 1)
        return (OpOutput((*a.shape[:-1], b.shape[-1]), a.dtype),)

    return rule


def infer_dropout(args: Args) -> tuple[OpOutput, ...]:
    x = get_tensor(args, 0)
    return (OpOutput(x.shape, x.dtype), OpOutput(x.shape, "bool"))


def infer_index_select(args: Args) -> tuple[OpOutput, ...]:
    x, dim, index = get_tensor(args, 0), get_integer(args, 1), get_tensor(args, 2)
    dim %= len(x.shape)
    return (OpOutput((*x.shape[:dim], math.prod(index.shape), *x.shape[dim + 1 :]), x.dtype),)


def infer_reduced(args: Args) -> tuple[OpOutput, ...]:
    """Infer sum, mean(self, dims, keepdim, dtype): the shape without the reduced axes (all without dims)."""
    x = get_tensor(args, 0)
    axes = get_integers(args, 1) if len(args) > 2 and args[1] is not None else ()
    gone = {axis % len(x.shape) for axis in axes} or set(range(len(x.shape)))
    keep = len(args) > 2 and args[2] is True
    shape = [1 if axis in gone else size for axis, size in enumerate(x.shape) if keep or axis not in gone]
    return (OpOutput(tuple(shape), get_dtype_argument(args, 3) or x.dtype),)


def infer_gather(args: Args) -> tuple[OpOutput, ...]:
    return (OpOutput(get_tensor(args, 2).shape, get_tensor(args, 0).dtype),)


def infer_concatenated(args: Args) -> tuple[OpOutput, ...]:
    parts = [part for part in walk_tensors(args[:1]) if part.shape != (0,)]
    dim = get_integer(args, 1) % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return (OpOutput(tuple(shape), parts[0].dtype),)


def make_convolved(padding_at: int) -> OutputRule:
    """A convolution whose padding, stride and dilation stand in this order from `padding_at`."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        x, weight = get_tensor(args, 0), get_tensor(args, 1)
        padding, stride, dilation = (get_integers(args, padding_at + index) for index in range(3))
        spatial = tuple(
            (size + 2 * pad - step * (kernel - 1) - 1) // stride_ + 1
            for size, kernel, pad, stride_, step in zip(
                x.shape[2:], weight.shape[2:], padding, stride, dilation, strict=True
            )
        )
        return (OpOutput((x.shape[0], weight.shape[0], *spatial), x.dtype),)

    return rule
