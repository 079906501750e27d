"""Infers shapes and dtypes of allocated outputs from the inputs, without torch.

These are candidates: an op allocates buffers of its own too, so that a block's size has to confirm what it is.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

from perfkit.core.allocations import can_cuda_serve, round_cuda_size
from perfkit.cost.calls.args import (
    Args,
    Shape,
    UnmodeledError,
    broadcast_shapes,
    get_dtype_argument,
    get_integer,
    get_integers,
    get_optional_tensor,
    get_tensor,
    infer_result_dtype,
    walk_tensors,
)
from perfkit.cost.calls.dtypes import BY_NAME, UNKNOWN
from perfkit.cost.calls.op_call import OpCall
from perfkit.cost.formulas.elementwise import COUNTS


class OpOutput(NamedTuple):
    """A possible output of an op; `dtype` is UNKNOWN where its inputs do not show it."""

    shape: Shape
    dtype: str


class BlockOutput(NamedTuple):
    """The contents of a block. Where the block is not `exact` (of equal size), it may be a buffer of nearly that size;
    the op made `made` such outputs."""

    output: OpOutput
    exact: bool
    made: int


Rule = Callable[[Args], tuple[OpOutput, ...]]

# Errors from damaged or foreign arguments.
_MISFITS = (UnmodeledError, IndexError, ValueError, ZeroDivisionError)

_WIDTHS = (1, 2, 4, 8, 16)  # bytes of an element


def infer_block_output(call: OpCall, size: int, cached: bool) -> BlockOutput | None:
    """Infer what an op stored in a block of `size` bytes that it allocated; None where no output fits, or several do.

    `cached` tells that the allocator is CUDA's, which rounds sizes up and does not split every block. An output of the
    block's very size goes before one that the block is larger than.
    """
    rule = _RULES.get(call.name)
    if rule is None:
        return None
    try:
        outputs = rule(call.args)
        exact = {
            candidate
            for candidate in outputs
            if any(_is_size(size, bytes_, cached) for bytes_ in _list_sizes(candidate))
        }
        near = {
            candidate
            for candidate in outputs
            if cached and any(can_cuda_serve(size, bytes_) for bytes_ in _list_sizes(candidate))
        }
    except _MISFITS:
        return None
    fitting = exact or near
    if len(fitting) != 1:
        return None
    (output,) = fitting
    return BlockOutput(output, bool(exact), outputs.count(output))


def _list_sizes(output: OpOutput) -> list[int]:
    """The bytes of an output, for each possible element size."""
    widths = (BY_NAME[output.dtype].size,) if output.dtype in BY_NAME else _WIDTHS
    return [math.prod(output.shape) * width for width in widths]


def _is_size(size: int, bytes_: int, cached: bool) -> bool:
    return size == bytes_ or (cached and size == round_cuda_size(bytes_))


def _make_sized(size_at: int, dtype_at: int, like: int | None = None) -> Rule:
    """A size among the arguments: `empty`, `new_empty`."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        dtype = get_dtype_argument(args, dtype_at) or (UNKNOWN if like is None else get_tensor(args, like).dtype)
        return (OpOutput(get_integers(args, size_at), dtype),)

    return rule


def _infer_resized(args: Args) -> tuple[OpOutput, ...]:
    return (OpOutput(get_integers(args, 1), get_tensor(args, 0).dtype),)


def _make_like(*at: int, dtype_at: int | None = None) -> Rule:
    """Outputs with the shape of some of the inputs."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        asked = None if dtype_at is None else get_dtype_argument(args, dtype_at)
        models = (get_optional_tensor(args, index) for index in at)
        return tuple(OpOutput(model.shape, asked or model.dtype) for model in models if model is not None)

    return rule


def _make_combined(dtype: str | None = None) -> Rule:
    """The inputs combined element by element."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        inputs = tuple(walk_tensors(args))
        return (OpOutput(broadcast_shapes(operand.shape for operand in inputs), dtype or infer_result_dtype(inputs)),)

    return rule


def _make_product(first: int) -> Rule:
    """The product of the matrices (or batches of them) at `first` and after it."""

    def rule(args: Args) -> tuple[OpOutput, ...]:
        a, b = get_tensor(args, first), get_tensor(args, first + 1)
        return (OpOutput((*a.shape[:-1], b.shape[-1]), a.dtype),)

    return rule


def _infer_dropout(args: Args) -> tuple[OpOutput, ...]:
    x = get_tensor(args, 0)
    return (OpOutput(x.shape, x.dtype), OpOutput(x.shape, "bool"))


def _infer_index_select(args: Args) -> tuple[OpOutput, ...]:
    x, dim, index = get_tensor(args, 0), get_integer(args, 1), get_tensor(args, 2)
    dim %= len(x.shape)
    return (OpOutput((*x.shape[:dim], math.prod(index.shape), *x.shape[dim + 1 :]), x.dtype),)


def _infer_reduced(args: Args) -> tuple[OpOutput, ...]:
    """Infer sum, mean(self, dims, keepdim, dtype): the shape without the reduced axes (all without dims)."""
    x = get_tensor(args, 0)
    axes = get_integers(args, 1) if len(args) > 2 and args[1] is not None else ()
    gone = {axis % len(x.shape) for axis in axes} or set(range(len(x.shape)))
    keep = len(args) > 2 and args[2] is True
    shape = [1 if axis in gone else size for axis, size in enumerate(x.shape) if keep or axis not in gone]
    return (OpOutput(tuple(shape), get_dtype_argument(args, 3) or x.dtype),)


def _infer_gather(args: Args) -> tuple[OpOutput, ...]:
    return (OpOutput(get_tensor(args, 2).shape, get_tensor(args, 0).dtype),)


def _infer_concatenated(args: Args) -> tuple[OpOutput, ...]:
    parts = [part for part in walk_tensors(args[:1]) if part.shape != (0,)]
    dim = get_integer(args, 1) % len(parts[0].shape)
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return (OpOutput(tuple(shape), parts[0].dtype),)


def _make_convolved(padding_at: int) -> Rule:
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


_ELEMENTWISE = " ".join(COUNTS.values()).split()
_TESTS = "eq ne lt le gt ge isnan isinf logical_and logical_or logical_not"
_LIKE_FIRST = (
    "clone _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data cumsum flip roll bernoulli"
    " native_dropout_backward"
)
_ATTENTION = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")

_OPS: dict[str, Rule] = {
    **{name: _make_combined() for name in _ELEMENTWISE},
    **{name: _make_combined("bool") for name in _TESTS.split()},
    **{name: _make_like(0) for name in _LIKE_FIRST.split()},
    **{f"_scaled_dot_product_{name}": _make_like(0) for name in _ATTENTION},
    **{f"_scaled_dot_product_{name}_backward": _make_like(1, 2, 3) for name in _ATTENTION},
    "empty": _make_sized(0, 1),
    "empty_strided": _make_sized(0, 2),
    "new_empty": _make_sized(1, 2, like=0),
    "new_empty_strided": _make_sized(1, 3, like=0),
    "resize_": _infer_resized,
    "_to_copy": _make_like(0, dtype_at=1),
    "mm": _make_product(0),
    "bmm": _make_product(0),
    "addmm": _make_product(1),
    "baddbmm": _make_product(1),
    "native_layer_norm": _make_like(0),
    "native_layer_norm_backward": _make_like(1, 5, 6),
    "native_group_norm": _make_like(0),
    "native_batch_norm": _make_like(0, 1),
    "cudnn_batch_norm": _make_like(0, 1),
    "cudnn_batch_norm_backward": _make_like(0, 2),
    "native_batch_norm_backward": _make_like(1, 2),
    "convolution_backward": _make_like(1, 2),
    "cudnn_convolution": _make_convolved(2),
    "miopen_convolution": _make_convolved(3),
    "mkldnn_convolution": _make_convolved(3),
    "native_dropout": _infer_dropout,
    "index_select": _infer_index_select,
    "gather": _infer_gather,
    "cat": _infer_concatenated,
    "sum": _infer_reduced,
    "mean": _infer_reduced,
    "amax": _infer_reduced,
    "amin": _infer_reduced,
}
_RULES: dict[str, Rule] = {f"aten::{name}": rule for name, rule in _OPS.items()}
