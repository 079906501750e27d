"""Ops that move data: copies, fills, concatenation, gathers and scatters. No FLOPs but where values are added up.

A gather reads the selected elements, not the whole table; a scatter in place touches the selected elements; an op that
pads or scatters into a new tensor writes all of it.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    Shape,
    UnmodelledError,
    all_tensors,
    distinct_bytes,
    dtype_argument,
    integer,
    integers,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
    tensor_list,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_DEFAULT_DTYPE = "fp32"


def _moved(nbytes: float, dtype: str, adds: float = 0.0) -> OpCost:
    return vector(adds, nbytes, dtype, "data movement")


def _copy(args: Args) -> OpCost:
    """copy_(self, src): reads the source and writes the destination, which is not read."""
    destination, source = tensor(args, 0), tensor(args, 1)
    return _moved(read_bytes(source) + out_bytes(numel(destination), destination.dtype), destination.dtype)


def _clone(args: Args) -> OpCost:
    x = tensor(args, 0)
    return _moved(read_bytes(x) + out_bytes(numel(x), x.dtype), x.dtype)


def _convert(args: Args) -> OpCost:
    """_to_copy(self, dtype, ...)."""
    x = tensor(args, 0)
    return _moved(read_bytes(x) + out_bytes(numel(x), dtype_argument(args, 1) or x.dtype), x.dtype)


def _repeat(args: Args) -> OpCost:
    x = tensor(args, 0)
    return _moved(read_bytes(x) + out_bytes(numel(x) * math.prod(integers(args, 1)), x.dtype), x.dtype)


def _lists(*positions: int) -> Formula:
    """Every tensor of the lists is read, and as much is written (cat, stack, splitting copies)."""

    def formula(args: Args) -> OpCost:
        tensors = [each for position in positions for each in tensor_list(args, position)]
        dtype = tensors[0].dtype if tensors else _DEFAULT_DTYPE
        return _moved(read_bytes(*tensors) + sum(out_bytes(numel(each), each.dtype) for each in tensors), dtype)

    return formula


def _split_copy(args: Args) -> OpCost:
    """split_with_sizes_copy(self, ...): the input is read once and written once."""
    x = tensor(args, 0)
    return _moved(read_bytes(x) + out_bytes(numel(x), x.dtype), x.dtype)


def _fill(args: Args) -> OpCost:
    """fill_, zero_, normal_, ...: writes all of self. Generating random numbers costs no FLOPs."""
    x = tensor(args, 0)
    return _moved(out_bytes(numel(x), x.dtype), x.dtype)


def _new(size_at: int, dtype_at: int, like: int | None = None) -> Formula:
    """Constructors: writes a tensor of the given size (zeros, full, randn, new_zeros)."""

    def formula(args: Args) -> OpCost:
        dtype = dtype_argument(args, dtype_at) or (tensor(args, like).dtype if like is not None else _DEFAULT_DTYPE)
        return _moved(out_bytes(math.prod(integers(args, size_at)), dtype), dtype)

    return formula


def _like(dtype_at: int) -> Formula:
    """Constructors after a tensor: ones_like, rand_like, full_like."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        dtype = dtype_argument(args, dtype_at) or x.dtype
        return _moved(out_bytes(numel(x), dtype), dtype)

    return formula


def _randint(args: Args) -> OpCost:
    """randint(high, size, dtype) or randint(low, high, size, dtype)."""
    at = next((index for index, value in enumerate(args) if isinstance(value, tuple)), None)
    if at is None:
        raise UnmodelledError("no size")
    dtype = dtype_argument(args, at + 1) or "int64"
    return _moved(out_bytes(math.prod(integers(args, at)), dtype), dtype)


def _unknown_size(args: Args) -> OpCost:
    """No FLOPs; the amount of data is not in the recorded arguments."""
    first = next(all_tensors(args), None)
    return _moved(math.nan, first.dtype if first is not None else _DEFAULT_DTYPE)


def _gathered(table: TensorArg, indices: TensorArg, outputs: int) -> OpCost:
    """Selected elements are read at most as often as they exist, and written once for every index."""
    reads = min(out_bytes(outputs, table.dtype), distinct_bytes(table))
    return _moved(read_bytes(indices) + reads + out_bytes(outputs, table.dtype), table.dtype)


def _embedding(args: Args) -> OpCost:
    """embedding(weight, indices, ...)."""
    weight, indices = tensor(args, 0, 2), tensor(args, 1)
    return _gathered(weight, indices, numel(indices) * weight.shape[1])


def _embedding_backward(args: Args) -> OpCost:
    """embedding_dense_backward(grad, indices, num_weights, ...): rows are added into a new table."""
    grad, indices = tensor(args, 0), tensor(args, 1)
    outputs = integer(args, 2) * grad.shape[-1]
    return _moved(read_bytes(grad, indices) + out_bytes(outputs, grad.dtype), grad.dtype, numel(grad))


def _index_select(args: Args) -> OpCost:
    """index_select(self, dim, index)."""
    x, index = tensor(args, 0), tensor(args, 2)
    if not x.shape:
        return _gathered(x, index, 1)
    return _gathered(x, index, numel(x) // max(x.shape[integer(args, 1)], 1) * numel(index))


def _gather(args: Args) -> OpCost:
    """gather(self, dim, index): one element for every index."""
    x, index = tensor(args, 0), tensor(args, 2)
    return _gathered(x, index, numel(index))


def _index(args: Args) -> OpCost:
    """index(self, indices): traces lose the list of indices, and with it the size of the result."""
    x = tensor(args, 0)
    value = args[1] if len(args) > 1 else None
    if not isinstance(value, tuple) or isinstance(value, TensorArg):
        return _moved(math.nan, x.dtype)
    slots: list[TensorArg | None] = [each if isinstance(each, TensorArg) else None for each in value]
    given = [each for each in slots if each is not None]
    if any(each.dtype in ("bool", "uint8") for each in given):
        return _moved(math.nan, x.dtype)  # a mask: how many are selected is data
    kept = [size for axis, size in enumerate(x.shape) if axis >= len(slots) or slots[axis] is None]
    selected: Shape = ()
    for each in given:
        selected = each.shape if math.prod(each.shape) >= math.prod(selected) else selected
    outputs = math.prod(kept) * math.prod(selected)
    reads = min(out_bytes(outputs, x.dtype), distinct_bytes(x))
    return _moved(read_bytes(*given) + reads + out_bytes(outputs, x.dtype), x.dtype)


def _index_put(new_tensor: bool) -> Formula:
    """index_put_(self, indices, values, accumulate): values are written (or added) at the selected places."""

    def formula(args: Args) -> OpCost:
        x, values = tensor(args, 0), tensor(args, 2)
        indices = args[1] if isinstance(args[1], tuple) and not isinstance(args[1], TensorArg) else None
        accumulate = len(args) > 3 and args[3] is True
        index_bytes = read_bytes(*all_tensors(indices)) if indices is not None else math.nan
        written = out_bytes(numel(values), x.dtype) * (2 if accumulate else 1)
        whole = read_bytes(x) + out_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return _moved(index_bytes + read_bytes(values) + written + whole, x.dtype, numel(values) if accumulate else 0)

    return formula


def _scatter(adds: bool, new_tensor: bool) -> Formula:
    """scatter, scatter_add, index_add(self, dim, index, source): one element moved for every element of the source."""

    def formula(args: Args) -> OpCost:
        x, index, source = tensor(args, 0), tensor(args, 2), optional_tensor(args, 3)
        moved = numel(source) if source is not None else numel(index)
        written = out_bytes(moved, x.dtype) * (2 if adds else 1)
        whole = read_bytes(x) + out_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return _moved(read_bytes(index, source) + written + whole, x.dtype, moved if adds else 0)

    return formula


def _into_zeros(args: Args) -> OpCost:
    """slice_backward, select_backward(grad, input_sizes, ...): the gradient within a tensor of zeros."""
    grad = tensor(args, 0)
    return _moved(read_bytes(grad) + out_bytes(math.prod(integers(args, 1)), grad.dtype), grad.dtype)


def _pad(args: Args) -> OpCost:
    """constant_pad_nd(self, pad, value): pad lists (before, after) from the last dimension."""
    x, pad = tensor(args, 0), integers(args, 1)
    shape = list(x.shape)
    if len(pad) % 2 or len(pad) // 2 > len(shape):
        raise UnmodelledError("padding does not fit the input")
    for axis in range(len(pad) // 2):
        shape[-1 - axis] += pad[2 * axis] + pad[2 * axis + 1]
    outputs = math.prod(shape)
    return _moved(distinct_bytes(x) + out_bytes(outputs, x.dtype), x.dtype)


def _sorted(args: Args) -> OpCost:
    """sort(self, ...): values and int64 positions; comparisons are not counted."""
    x = tensor(args, 0)
    return _moved(read_bytes(x) + out_bytes(numel(x), x.dtype) + 8 * numel(x), x.dtype)


def _topk(args: Args) -> OpCost:
    """topk(self, k, dim, ...): k values and int64 positions along an axis; comparisons are not counted."""
    x, k = tensor(args, 0), integer(args, 1)
    axis = args[2] if len(args) > 2 and isinstance(args[2], int) else -1
    outputs = numel(x) // max(x.shape[axis], 1) * k if x.shape else k
    return _moved(read_bytes(x) + out_bytes(outputs, x.dtype) + 8 * outputs, x.dtype)


def _scalar(args: Args) -> OpCost:
    """_local_scalar_dense(self): one element to the host."""
    x = tensor(args, 0)
    return _moved(out_bytes(1, x.dtype), x.dtype)


FORMULAS: dict[str, Formula] = {
    "aten::copy_": _copy,
    "aten::_copy_from": _copy,
    **dict.fromkeys(
        ("aten::clone", "aten::flip", "aten::roll", "aten::tril", "aten::triu", "aten::_pin_memory"), _clone
    ),
    **dict.fromkeys(("aten::tril_", "aten::triu_"), _clone),
    "aten::_to_copy": _convert,
    "aten::repeat": _repeat,
    "aten::cat": _lists(0),
    "aten::stack": _lists(0),
    "aten::_chunk_cat": _lists(0),
    "fsdp::chunk_cat": _lists(0),
    "fsdp::all_gather_copy_in": _lists(0),
    "aten::split_with_sizes_copy": _split_copy,
    "fsdp::split_with_sizes_copy": _split_copy,
    **{
        f"aten::{name}_": _fill
        for name in (
            "fill",
            "zero",
            "normal",
            "uniform",
            "random",
            "bernoulli",
            "exponential",
            "log_normal",
            "geometric",
        )
    },
    **{f"aten::{name}": _new(0, 1) for name in ("zeros", "ones", "rand", "randn", "randperm")},
    "aten::full": _new(0, 2),
    "aten::scalar_tensor": _unknown_size,
    "aten::arange": _unknown_size,
    "aten::linspace": _unknown_size,
    "aten::eye": _unknown_size,
    **{f"aten::new_{name}": _new(1, 2, like=0) for name in ("zeros", "ones")},
    "aten::new_full": _new(1, 3, like=0),
    **{f"aten::{name}_like": _like(1) for name in ("zeros", "ones", "rand", "randn")},
    "aten::full_like": _like(2),
    "aten::randint": _randint,
    "aten::bernoulli": _clone,
    "aten::multinomial": _unknown_size,
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::index_select": _index_select,
    "aten::gather": _gather,
    "aten::index": _index,
    "aten::masked_select": _unknown_size,
    "aten::nonzero": _unknown_size,
    "aten::index_put": _index_put(new_tensor=True),
    "aten::index_put_": _index_put(new_tensor=False),
    "aten::_index_put_impl_": _index_put(new_tensor=False),
    "aten::scatter": _scatter(adds=False, new_tensor=True),
    "aten::scatter_": _scatter(adds=False, new_tensor=False),
    "aten::scatter_add": _scatter(adds=True, new_tensor=True),
    "aten::scatter_add_": _scatter(adds=True, new_tensor=False),
    "aten::index_add": _scatter(adds=True, new_tensor=True),
    "aten::index_add_": _scatter(adds=True, new_tensor=False),
    "aten::index_copy_": _scatter(adds=False, new_tensor=False),
    "aten::slice_backward": _into_zeros,
    "aten::select_backward": _into_zeros,
    "aten::constant_pad_nd": _pad,
    "aten::sort": _sorted,
    "aten::topk": _topk,
    "aten::_local_scalar_dense": _scalar,
}
