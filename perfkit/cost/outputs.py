"""Shapes and dtypes of what ops allocate, as far as their inputs tell. Needs no torch.

These are candidates: an op allocates buffers of its own too, so that a block's size has to confirm what it is.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from perfkit.allocations import cuda_serves, cuda_units
from perfkit.cost.args import (
    Args,
    Shape,
    UnmodelledError,
    all_tensors,
    broadcast,
    dtype_argument,
    integer,
    integers,
    optional_tensor,
    result_dtype,
    tensor,
)
from perfkit.cost.call import OpCall
from perfkit.cost.dtypes import BY_NAME, UNKNOWN
from perfkit.cost.elementwise import COUNTS


class Output(NamedTuple):
    """What an op may have allocated; `dtype` is UNKNOWN where its inputs do not tell it."""

    shape: Shape
    dtype: str


class Found(NamedTuple):
    """What is in a block. Where the block is not `exact`, of that very size, it may be a buffer of the op's own that
    has nearly the size: the op made `made` such outputs."""

    output: Output
    exact: bool
    made: int


Rule = Callable[[Args], tuple[Output, ...]]

# What damaged or foreign arguments raise.
_MISFITS = (UnmodelledError, IndexError, ValueError, ZeroDivisionError)

_WIDTHS = (1, 2, 4, 8, 16)  # bytes of an element


def block_output(call: OpCall, size: int, cached: bool) -> Found | None:
    """What an op put into a block of `size` bytes that it allocated; None where no output fits, or several do.

    `cached` tells that the allocator is CUDA's, which rounds sizes up and does not split every block. An output of the
    block's very size goes before one that the block is larger than.
    """
    rule = _RULES.get(call.name)
    if rule is None:
        return None
    try:
        outputs = rule(call.args)
        exact = {made for made in outputs if any(_is(size, bytes_, cached) for bytes_ in _bytes(made))}
        near = {made for made in outputs if cached and any(cuda_serves(size, bytes_) for bytes_ in _bytes(made))}
    except _MISFITS:
        return None
    fitting = exact or near
    if len(fitting) != 1:
        return None
    (output,) = fitting
    return Found(output, bool(exact), outputs.count(output))


def _bytes(output: Output) -> list[int]:
    """How many bytes an output takes, for each width that its elements may have."""
    widths = (BY_NAME[output.dtype].size,) if output.dtype in BY_NAME else _WIDTHS
    return [math.prod(output.shape) * width for width in widths]


def _is(size: int, bytes_: int, cached: bool) -> bool:
    return size == bytes_ or (cached and size == cuda_units(bytes_))


def _sized(size_at: int, dtype_at: int, like: int | None = None) -> Rule:
    """A size among the arguments: `empty`, `new_empty`."""

    def rule(args: Args) -> tuple[Output, ...]:
        dtype = dtype_argument(args, dtype_at) or (UNKNOWN if like is None else tensor(args, like).dtype)
        return (Output(integers(args, size_at), dtype),)

    return rule


def _resized(args: Args) -> tuple[Output, ...]:
    return (Output(integers(args, 1), tensor(args, 0).dtype),)


def _like(*at: int, dtype_at: int | None = None) -> Rule:
    """As large as some of the inputs."""

    def rule(args: Args) -> tuple[Output, ...]:
        asked = None if dtype_at is None else dtype_argument(args, dtype_at)
        models = (optional_tensor(args, index) for index in at)
        return tuple(Output(model.shape, asked or model.dtype) for model in models if model is not None)

    return rule


def _combined(dtype: str | None = None) -> Rule:
    """The inputs combined element by element."""

    def rule(args: Args) -> tuple[Output, ...]:
        inputs = tuple(all_tensors(args))
        return (Output(broadcast(operand.shape for operand in inputs), dtype or result_dtype(inputs)),)

    return rule


def _product(first: int) -> Rule:
    """The product of the matrices (or batches of them) at `first` and after it."""

    def rule(args: Args) -> tuple[Output, ...]:
        a, b = tensor(args, first), tensor(args, first + 1)
        return (Output((*a.shape[:-1], b.shape[-1]), a.dtype),)

    return rule


def _dropout(args: Args) -> tuple[Output, ...]:
    x = tensor(args, 0)
    return (Output(x.shape, x.dtype), Output(x.shape, "bool"))


def _index_select(args: Args) -> tuple[Output, ...]:
    x, dim, index = tensor(args, 0), integer(args, 1), tensor(args, 2)
    dim %= len(x.shape)
    return (Output((*x.shape[:dim], math.prod(index.shape), *x.shape[dim + 1 :]), x.dtype),)


def _reduced(args: Args) -> tuple[Output, ...]:
    """sum, mean(self, dims, keepdim, dtype): what remains beside the axes that are gone; all are without dims."""
    x = tensor(args, 0)
    given = integers(args, 1) if len(args) > 2 and args[1] is not None else ()
    gone = {axis % len(x.shape) for axis in given} or set(range(len(x.shape)))
    keep = len(args) > 2 and args[2] is True
    shape = [1 if axis in gone else size for axis, size in enumerate(x.shape) if keep or axis not in gone]
    return (Output(tuple(shape), dtype_argument(args, 3) or x.dtype),)


def _gather(args: Args) -> tuple[Output, ...]:
    return (Output(tensor(args, 2).shape, tensor(args, 0).dtype),)


def _concatenated(args: Args) -> tuple[Output, ...]:
    parts = [part for part in all_tensors(args[:1]) if part.shape != (0,)]
    dim = integer(args, 1) % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return (Output(tuple(shape), parts[0].dtype),)


def _convolved(padding_at: int) -> Rule:
    """A convolution whose padding, stride and dilation stand in this order from `padding_at`."""

    def rule(args: Args) -> tuple[Output, ...]:
        x, weight = tensor(args, 0), tensor(args, 1)
        padding, stride, dilation = (integers(args, padding_at + index) for index in range(3))
        spatial = tuple(
            (size + 2 * pad - step * (kernel - 1) - 1) // stride_ + 1
            for size, kernel, pad, stride_, step in zip(
                x.shape[2:], weight.shape[2:], padding, stride, dilation, strict=True
            )
        )
        return (Output((x.shape[0], weight.shape[0], *spatial), x.dtype),)

    return rule


_ELEMENTWISE = " ".join(COUNTS.values()).split()
_TESTS = "eq ne lt le gt ge isnan isinf logical_and logical_or logical_not"
_LIKE_FIRST = (
    "clone _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data cumsum flip roll bernoulli"
    " native_dropout_backward"
)
_ATTENTION = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")

_OPS: dict[str, Rule] = {
    **{name: _combined() for name in _ELEMENTWISE},
    **{name: _combined("bool") for name in _TESTS.split()},
    **{name: _like(0) for name in _LIKE_FIRST.split()},
    **{f"_scaled_dot_product_{name}": _like(0) for name in _ATTENTION},
    **{f"_scaled_dot_product_{name}_backward": _like(1, 2, 3) for name in _ATTENTION},
    "empty": _sized(0, 1),
    "empty_strided": _sized(0, 2),
    "new_empty": _sized(1, 2, like=0),
    "new_empty_strided": _sized(1, 3, like=0),
    "resize_": _resized,
    "_to_copy": _like(0, dtype_at=1),
    "mm": _product(0),
    "bmm": _product(0),
    "addmm": _product(1),
    "baddbmm": _product(1),
    "native_layer_norm": _like(0),
    "native_layer_norm_backward": _like(1, 5, 6),
    "native_group_norm": _like(0),
    "native_batch_norm": _like(0, 1),
    "cudnn_batch_norm": _like(0, 1),
    "cudnn_batch_norm_backward": _like(0, 2),
    "native_batch_norm_backward": _like(1, 2),
    "convolution_backward": _like(1, 2),
    "cudnn_convolution": _convolved(2),
    "miopen_convolution": _convolved(3),
    "mkldnn_convolution": _convolved(3),
    "native_dropout": _dropout,
    "index_select": _index_select,
    "gather": _gather,
    "cat": _concatenated,
    "sum": _reduced,
    "mean": _reduced,
    "amax": _reduced,
    "amin": _reduced,
}
_RULES: dict[str, Rule] = {f"aten::{name}": rule for name, rule in _OPS.items()}
