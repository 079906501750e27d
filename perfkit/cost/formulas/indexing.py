"""Ops that gather, scatter and locate elements by index or mask.

A gather reads the selected elements, not the whole table; a scatter in place touches the selected elements. Where the
size of a result is data (`nonzero`), what is surely read and written is counted and called a lower bound.
"""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    Shape,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.calls.output_rules import infer_gather, infer_index_select

OPS = OpFamily(OpClass.INDEX)

SOURCE = "indexing"
AT_LEAST = "indexing, lower bound"
POSITION = 8  # bytes of an int64


def cost_moved(nbytes: float, dtype: str, adds: float = 0.0, source: str = SOURCE) -> OpCost:
    """A cost without arithmetic, but for `adds` additions."""
    return make_vector_cost(adds, nbytes, dtype, source)


def cost_gathered(table: TensorArg, indices: TensorArg, outputs: int) -> OpCost:
    """Selected elements are read at most as often as they exist, and written once for every index."""
    reads = min(count_output_bytes(outputs, table.dtype), count_distinct_bytes(table))
    return cost_moved(count_read_bytes(indices) + reads + count_output_bytes(outputs, table.dtype), table.dtype)


@OPS.formula("index_select", flops=Flops.MOVES, outputs=infer_index_select)
def _cost_index_select(args: Args) -> OpCost:
    """index_select(self, dim, index)."""
    x, index = get_tensor(args, 0), get_tensor(args, 2)
    if len(x.shape) < 2:  # the dimension, which older traces lose, does not matter
        return cost_gathered(x, index, numel(index))
    return cost_gathered(x, index, numel(x) // max(x.shape[get_integer(args, 1)], 1) * numel(index))


def _make_gather(index_at: int) -> Formula:
    """gather(self, dim, index), take(self, index): one element for every index."""

    def formula(args: Args) -> OpCost:
        x, index = get_tensor(args, 0), get_tensor(args, index_at)
        return cost_gathered(x, index, numel(index))

    return formula


def _get_indices(args: Args) -> tuple[list[TensorArg | None], bool]:
    """The list of indices, and whether it was recorded: a trace loses it."""
    value = args[1] if len(args) > 1 else None
    if not isinstance(value, tuple) or isinstance(value, TensorArg):
        return [], False
    return [index if isinstance(index, TensorArg) else None for index in value], True


def compute_selected_shape(x: TensorArg, slots: list[TensorArg | None]) -> Shape | None:
    """The shape of x[slots], None where a mask selects: its count depends on data."""
    indices = [slot for slot in slots if slot is not None]
    if any(index.dtype in ("bool", "uint8") for index in indices):
        return None
    kept = tuple(size for axis, size in enumerate(x.shape) if axis >= len(slots) or slots[axis] is None)
    selected: Shape = ()
    for index in indices:
        selected = index.shape if math.prod(index.shape) >= math.prod(selected) else selected
    return kept + selected


def cost_indexed(x: TensorArg, index_bytes: float, outputs: int) -> OpCost:
    """Cost x[indices] with this many elements."""
    reads = min(count_output_bytes(outputs, x.dtype), count_distinct_bytes(x))
    return cost_moved(index_bytes + reads + count_output_bytes(outputs, x.dtype), x.dtype)


@OPS.formula("index _unsafe_index", flops=Flops.MOVES)
def _cost_index(args: Args) -> OpCost:
    """index(self, indices): the size of the result is unknown where the indices are."""
    x = get_tensor(args, 0)
    slots, recorded = _get_indices(args)
    shape = compute_selected_shape(x, slots) if recorded else None
    if shape is None:
        return cost_moved(math.nan, x.dtype)
    return cost_indexed(x, count_read_bytes(*slots), math.prod(shape))


def cost_put_elements(
    x: TensorArg, values: TensorArg, index_bytes: float, count: int, adds: bool, new_tensor: bool
) -> OpCost:
    """Cost writing (or adding) `count` elements into x, or into a copy of it."""
    written = count_output_bytes(count, x.dtype) * (2 if adds else 1)
    whole = count_read_bytes(x) + count_output_bytes(numel(x), x.dtype) if new_tensor else 0.0
    nbytes = index_bytes + count_read_bytes(values) + written + whole
    return cost_moved(nbytes, x.dtype, count if adds else 0)


def _make_index_put(new_tensor: bool) -> Formula:
    """index_put_(self, indices, values, accumulate): values are written (or added) at the selected places."""

    def formula(args: Args) -> OpCost:
        x, values = get_tensor(args, 0), get_tensor(args, 2)
        slots, recorded = _get_indices(args)
        adds = len(args) > 3 and args[3] is True
        shape = compute_selected_shape(x, slots) if recorded else None
        # One value may fill all places.
        count = math.prod(shape) if shape is not None else numel(values)
        index_bytes = count_read_bytes(*slots) if recorded else math.nan
        return cost_put_elements(x, values, index_bytes, count, adds, new_tensor)

    return formula


def _make_scatter(adds: bool, new_tensor: bool) -> Formula:
    """scatter, scatter_add, index_add(self, dim, index, source): one element moved for every element of the source."""

    def formula(args: Args) -> OpCost:
        x, index, source = get_tensor(args, 0), get_tensor(args, 2), get_optional_tensor(args, 3)
        count = numel(source) if source is not None else numel(index)
        written = count_output_bytes(count, x.dtype) * (2 if adds else 1)
        whole = count_read_bytes(x) + count_output_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return cost_moved(count_read_bytes(index, source) + written + whole, x.dtype, count if adds else 0)

    return formula


def _make_index_fill(new_tensor: bool) -> Formula:
    """index_fill(self, dim, index, value)."""

    def formula(args: Args) -> OpCost:
        x, index = get_tensor(args, 0), get_tensor(args, 2)
        count = numel(x) // max(x.shape[get_integer(args, 1)], 1) * numel(index)
        whole = count_read_bytes(x) + count_output_bytes(numel(x), x.dtype) if new_tensor else 0.0
        return cost_moved(count_read_bytes(index) + count_output_bytes(count, x.dtype) + whole, x.dtype)

    return formula


@OPS.formula("put_", op_class=OpClass.OTHER)
def _cost_put(args: Args) -> OpCost:
    """put_(self, index, source, accumulate)."""
    x, index, source = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    return cost_put_elements(
        x, source, count_read_bytes(index), numel(index), len(args) > 3 and args[3] is True, new_tensor=False
    )


@OPS.formula("masked_scatter masked_scatter_", flops=Flops.MOVES, op_class=OpClass.OTHER)
def _cost_masked_scatter(args: Args) -> OpCost:
    """Cost masked_scatter(self, mask, source): masked elements come from source, the rest from self."""
    x, mask = get_tensor(args, 0), get_tensor(args, 1)
    return cost_moved(count_read_bytes(x, mask) + count_output_bytes(numel(x), x.dtype), x.dtype)


@OPS.formula("masked_select", flops=Flops.MOVES)
def _cost_masked_select(args: Args) -> OpCost:
    """Cost masked_select(self, mask): reads the mask; the selected count depends on data."""
    x, mask = get_tensor(args, 0), get_tensor(args, 1)
    return cost_moved(count_read_bytes(mask), x.dtype, source=AT_LEAST)


@OPS.formula("nonzero nonzero_static", flops=Flops.MOVES)
@OPS.formula("_unique _unique2 unique_dim unique_consecutive", flops=Flops.MOVES, op_class=OpClass.OTHER)
@OPS.formula("bincount histc _pack_padded_sequence", flops=Flops.NONE, op_class=OpClass.OTHER)
def _cost_search(args: Args) -> OpCost:
    """nonzero, unique, bincount, histc(self, ...): self is read; the size of the result is data, or it is small."""
    x = get_tensor(args, 0)
    return cost_moved(count_read_bytes(x), x.dtype, source=AT_LEAST)


def _make_bucketize(values_at: int, boundaries_at: int) -> Formula:
    """bucketize(self, boundaries, out_int32, ...), searchsorted(sorted_sequence, self, out_int32, ...)."""

    def formula(args: Args) -> OpCost:
        values, boundaries = get_optional_tensor(args, values_at), get_tensor(args, boundaries_at)
        count = numel(values) if values is not None else 1
        size = 4 if len(args) > 2 and args[2] is True else POSITION
        return cost_moved(count_read_bytes(values, boundaries) + size * count, boundaries.dtype)

    return formula


@OPS.formula("isin", flops=Flops.NONE, op_class=OpClass.OTHER)
def _cost_isin(args: Args) -> OpCost:
    """isin(elements, test_elements, ...): one bool for every element."""
    elements = get_tensor(args, 0)
    return cost_moved(count_read_bytes(*walk_tensors(args)) + numel(elements), elements.dtype)


@OPS.formula("sort", flops=Flops.MOVES, op_class=OpClass.OTHER)
def _cost_sort(args: Args) -> OpCost:
    """sort(self, ...): values and int64 positions; comparisons are not counted."""
    x = get_tensor(args, 0)
    return cost_moved(count_read_bytes(x) + count_output_bytes(numel(x), x.dtype) + POSITION * numel(x), x.dtype)


@OPS.formula("topk", flops=Flops.MOVES, op_class=OpClass.OTHER)
def _cost_topk(args: Args) -> OpCost:
    """topk(self, k, dim, ...): k values and int64 positions along an axis; comparisons are not counted."""
    x, k = get_tensor(args, 0), get_integer(args, 1)
    axis = args[2] if len(args) > 2 and isinstance(args[2], int) else -1
    outputs = numel(x) // max(x.shape[axis], 1) * k if x.shape else k
    return cost_moved(count_read_bytes(x) + count_output_bytes(outputs, x.dtype) + POSITION * outputs, x.dtype)


def _make_order_statistic(axis_at: int) -> Formula:
    """kthvalue(self, k, dim), median, mode(self, dim): a value and its position along an axis, or a value of all."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        axis = args[axis_at] if axis_at < len(args) else None
        if not isinstance(axis, int) or not x.shape:
            return cost_moved(count_read_bytes(x) + count_output_bytes(1, x.dtype), x.dtype)
        kept = numel(x) // max(x.shape[axis], 1)
        return cost_moved(count_read_bytes(x) + count_output_bytes(kept, x.dtype) + POSITION * kept, x.dtype)

    return formula


OPS.add("gather", _make_gather(2), flops=Flops.MOVES, outputs=infer_gather)
OPS.add("take", _make_gather(1), flops=Flops.MOVES)
OPS.add("index_put _unsafe_index_put", _make_index_put(new_tensor=True))
OPS.add("index_put_ _index_put_impl_", _make_index_put(new_tensor=False))
OPS.add("scatter", _make_scatter(adds=False, new_tensor=True), flops=Flops.NONE)
OPS.add("scatter_", _make_scatter(adds=False, new_tensor=False), flops=Flops.NONE)
OPS.add("scatter_add scatter_reduce index_add index_reduce", _make_scatter(adds=True, new_tensor=True))
OPS.add("scatter_add_ scatter_reduce_ index_add_ index_reduce_", _make_scatter(adds=True, new_tensor=False))
OPS.add("index_copy", _make_scatter(adds=False, new_tensor=True), flops=Flops.MOVES)
OPS.add("index_copy_", _make_scatter(adds=False, new_tensor=False), flops=Flops.MOVES)
OPS.add("index_fill", _make_index_fill(new_tensor=True), flops=Flops.MOVES)
OPS.add("index_fill_", _make_index_fill(new_tensor=False), flops=Flops.MOVES)
OPS.add("bucketize", _make_bucketize(0, 1), flops=Flops.NONE, op_class=OpClass.OTHER)
OPS.add("searchsorted", _make_bucketize(1, 0), flops=Flops.NONE, op_class=OpClass.OTHER)
OPS.add("kthvalue", _make_order_statistic(2), flops=Flops.MOVES, op_class=OpClass.OTHER)
OPS.add("median nanmedian mode", _make_order_statistic(1), flops=Flops.NONE, op_class=OpClass.OTHER)
