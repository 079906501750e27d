"""Selecting and placing elements by position or by mask, and finding such positions.

A gather reads the selected elements, not the whole table; a scatter in place touches the selected elements. Where the
size of a result is data (`nonzero`), what is surely read and written is counted and called a lower bound.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    Shape,
    all_tensors,
    distinct_bytes,
    integer,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

SOURCE = "indexing"
AT_LEAST = "indexing, lower bound"
POSITION = 8  # bytes of an int64


def moved(nbytes: float, dtype: str, adds: float = 0.0, source: str = SOURCE) -> OpCost:
    """A cost without arithmetic, but for `adds` additions."""
    return vector(adds, nbytes, dtype, source)


def gathered(table: TensorArg, indices: TensorArg, outputs: int) -> OpCost:
    """Selected elements are read at most as often as they exist, and written once for every index."""
    reads = min(out_bytes(outputs, table.dtype), distinct_bytes(table))
    return moved(read_bytes(indices) + reads + out_bytes(outputs, table.dtype), table.dtype)


def _index_select(args: Args) -> OpCost:
    """index_select(self, dim, index)."""
    x, index = tensor(args, 0), tensor(args, 2)
    if len(x.shape) < 2:  # the dimension, which older traces lose, does not matter
        return gathered(x, index, numel(index))
    return gathered(x, index, numel(x) // max(x.shape[integer(args, 1)], 1) * numel(index))


def _gather(index_at: int) -> Formula:
    """gather(self, dim, index), take(self, index): one element for every index."""

    def formula(args: Args) -> OpCost:
        x, index = tensor(args, 0), tensor(args, index_at)
        return gathered(x, index, numel(index))

    return formula


def _indices(args: Args) -> tuple[list[TensorArg | None], bool]:
    """The list of indices, and whether it was recorded: a trace loses it."""
    value = args[1] if len(args) > 1 else None
    if not isinstance(value, tuple) or isinstance(value, TensorArg):
        return [], False
    return [index if isinstance(index, TensorArg) else None for index in value], True


def selected_shape(x: TensorArg, slots: list[TensorArg | None]) -> Shape | None:
    """The shape of x[slots], None where a mask selects: how many it selects is data."""
    given = [slot for slot in slots if slot is not None]
    if any(index.dtype in ("bool", "uint8") for index in given):
        return None
    kept = tuple(size for axis, size in enumerate(x.shape) if axis >= len(slots) or slots[axis] is None)
    selected: Shape = ()
    for index in given:
        selected = index.shape if math.prod(index.shape) >= math.prod(selected) else selected
    return kept + selected


def indexed(x: TensorArg, index_bytes: float, outputs: int) -> OpCost:
    """x[indices] with so many elements."""
    reads = min(out_bytes(outputs, x.dtype), distinct_bytes(x))
    return moved(index_bytes + reads + out_bytes(outputs, x.dtype), x.dtype)


def _index(args: Args) -> OpCost:
    """index(self, indices): the size of the result is unknown where the indices are."""
    x = tensor(args, 0)
    slots, recorded = _indices(args)
    shape = selected_shape(x, slots) if recorded else None
    if shape is None:
        return moved(math.nan, x.dtype)
    return indexed(x, read_bytes(*slots), math.prod(shape))


def put(x: TensorArg, values: TensorArg, index_bytes: float, count: int, adds: bool, new_tensor: bool) -> OpCost:
    """`count` elements are written (or added) into x, or into a copy of it."""
    written = out_bytes(count, x.dtype) * (2 if adds else 1)
    whole = read_bytes(x) + out_bytes(numel(x), x.dtype) if new_tensor else 0.0
    nbytes = index_bytes + read_bytes(values) + written + whole
    return moved(nbytes, x.dtype, count if adds else 0)


def _index_put(new_tensor: bool) -> Formula:
    """index_put_(self, indices, values, accumulate): values are written (or added) at the selected places."""

    def formula(args: Args) -> OpCost:
        x, values = tensor(args, 0), tensor(args, 2)
        slots, recorded = _indices(args)
        adds = len(args) > 3 and args[3] is True
        shape = selected_shape(x, slots) if recorded else None
        # One value may fill all places.
        count = math.prod(shape) if shape is not None else numel(values)
        index_bytes = read_bytes(*slots) if recorded else math.nan
        return put(x, values, index_bytes, count, adds, new_tensor)

    return formula


def _scatter(adds: bool, new_tensor: bool) -> Formula:
    """scatter, scatter_add, index_add(self, dim, index, source): one element moved for every element of the source."""

    def formula(args: Args) -> OpCost:
        x, index, source = tensor(args, 0), tensor(args, 2), optional_tensor(args, 3)
        count = numel(source) if source is not None else numel(index)
        written = out_bytes(count, x.dtype) * (2 if adds else 1)
        whole = read_bytes(x) + out_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return moved(read_bytes(index, source) + written + whole, x.dtype, count if adds else 0)

    return formula


def _index_fill(new_tensor: bool) -> Formula:
    """index_fill(self, dim, index, value)."""

    def formula(args: Args) -> OpCost:
        x, index = tensor(args, 0), tensor(args, 2)
        count = numel(x) // max(x.shape[integer(args, 1)], 1) * numel(index)
        whole = read_bytes(x) + out_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return moved(read_bytes(index) + out_bytes(count, x.dtype) + whole, x.dtype)

    return formula


def _put(args: Args) -> OpCost:
    """put_(self, index, source, accumulate)."""
    x, index, source = tensor(args, 0), tensor(args, 1), tensor(args, 2)
    return put(x, source, read_bytes(index), numel(index), len(args) > 3 and args[3] is True, new_tensor=False)


def _masked_scatter(args: Args) -> OpCost:
    """masked_scatter(self, mask, source): what the mask leaves comes from self, the rest from source."""
    x, mask = tensor(args, 0), tensor(args, 1)
    return moved(read_bytes(x, mask) + out_bytes(numel(x), x.dtype), x.dtype)


def _masked_select(args: Args) -> OpCost:
    """masked_select(self, mask): the mask is read; how much it selects is data."""
    x, mask = tensor(args, 0), tensor(args, 1)
    return moved(read_bytes(mask), x.dtype, source=AT_LEAST)


def _searched(args: Args) -> OpCost:
    """nonzero, unique, bincount, histc(self, ...): self is read; the size of the result is data, or it is small."""
    x = tensor(args, 0)
    return moved(read_bytes(x), x.dtype, source=AT_LEAST)


def _bucketize(values_at: int, boundaries_at: int) -> Formula:
    """bucketize(self, boundaries, out_int32, ...), searchsorted(sorted_sequence, self, out_int32, ...)."""

    def formula(args: Args) -> OpCost:
        values, boundaries = optional_tensor(args, values_at), tensor(args, boundaries_at)
        count = numel(values) if values is not None else 1
        size = 4 if len(args) > 2 and args[2] is True else POSITION
        return moved(read_bytes(values, boundaries) + size * count, boundaries.dtype)

    return formula


def _isin(args: Args) -> OpCost:
    """isin(elements, test_elements, ...): one bool for every element."""
    elements = tensor(args, 0)
    return moved(read_bytes(*all_tensors(args)) + numel(elements), elements.dtype)


def _sorted(args: Args) -> OpCost:
    """sort(self, ...): values and int64 positions; comparisons are not counted."""
    x = tensor(args, 0)
    return moved(read_bytes(x) + out_bytes(numel(x), x.dtype) + POSITION * numel(x), x.dtype)


def _topk(args: Args) -> OpCost:
    """topk(self, k, dim, ...): k values and int64 positions along an axis; comparisons are not counted."""
    x, k = tensor(args, 0), integer(args, 1)
    axis = args[2] if len(args) > 2 and isinstance(args[2], int) else -1
    outputs = numel(x) // max(x.shape[axis], 1) * k if x.shape else k
    return moved(read_bytes(x) + out_bytes(outputs, x.dtype) + POSITION * outputs, x.dtype)


def _order_statistic(axis_at: int) -> Formula:
    """kthvalue(self, k, dim), median, mode(self, dim): a value and its position along an axis, or a value of all."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        axis = args[axis_at] if axis_at < len(args) else None
        if not isinstance(axis, int) or not x.shape:
            return moved(read_bytes(x) + out_bytes(1, x.dtype), x.dtype)
        kept = numel(x) // max(x.shape[axis], 1)
        return moved(read_bytes(x) + out_bytes(kept, x.dtype) + POSITION * kept, x.dtype)

    return formula


FORMULAS: dict[str, Formula] = {
    "aten::index_select": _index_select,
    "aten::gather": _gather(2),
    "aten::take": _gather(1),
    "aten::index": _index,
    "aten::_unsafe_index": _index,
    "aten::index_put": _index_put(new_tensor=True),
    "aten::_unsafe_index_put": _index_put(new_tensor=True),
    "aten::index_put_": _index_put(new_tensor=False),
    "aten::_index_put_impl_": _index_put(new_tensor=False),
    "aten::put_": _put,
    "aten::scatter": _scatter(adds=False, new_tensor=True),
    "aten::scatter_": _scatter(adds=False, new_tensor=False),
    **{f"aten::{name}": _scatter(adds=True, new_tensor=True) for name in ("scatter_add", "scatter_reduce")},
    **{f"aten::{name}_": _scatter(adds=True, new_tensor=False) for name in ("scatter_add", "scatter_reduce")},
    **{f"aten::{name}": _scatter(adds=True, new_tensor=True) for name in ("index_add", "index_reduce")},
    **{f"aten::{name}_": _scatter(adds=True, new_tensor=False) for name in ("index_add", "index_reduce")},
    "aten::index_copy": _scatter(adds=False, new_tensor=True),
    "aten::index_copy_": _scatter(adds=False, new_tensor=False),
    "aten::index_fill": _index_fill(new_tensor=True),
    "aten::index_fill_": _index_fill(new_tensor=False),
    "aten::masked_scatter": _masked_scatter,
    "aten::masked_scatter_": _masked_scatter,
    "aten::masked_select": _masked_select,
    **dict.fromkeys(
        (
            *("aten::nonzero", "aten::nonzero_static", "aten::_unique", "aten::_unique2", "aten::unique_dim"),
            *("aten::unique_consecutive", "aten::bincount", "aten::histc", "aten::_pack_padded_sequence"),
        ),
        _searched,
    ),
    "aten::bucketize": _bucketize(0, 1),
    "aten::searchsorted": _bucketize(1, 0),
    "aten::isin": _isin,
    "aten::sort": _sorted,
    "aten::topk": _topk,
    "aten::kthvalue": _order_statistic(2),
    "aten::median": _order_statistic(1),
    "aten::nanmedian": _order_statistic(1),
    "aten::mode": _order_statistic(1),
}
