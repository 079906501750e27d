"""Costs ops by their nested calls, where their own arguments lack the sizes.

A trace loses the list of tensors that `x[i, j]` indexes with. On every device `aten::index` first restrides `x` to the
shape of its result (`aten::as_strided`, stride 0 along what is indexed) and reshapes each index to broadcast.
"""

import math
from collections.abc import Sequence

from perfkit.cost.calls.args import (
    UnmodeledError,
    count_read_bytes,
    get_integers,
    get_optional_tensor,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpCall, OpCost, TensorArg
from perfkit.cost.formulas.indexing import cost_indexed, cost_put_elements

_GATHERS = frozenset({"aten::index", "aten::_unsafe_index"})
_PUTS = frozenset({"aten::index_put_", "aten::_index_put_impl_", "aten::index_put", "aten::_unsafe_index_put"})

SIZED_INSIDE = _GATHERS | _PUTS

_RESTRIDE, _RESHAPE = "aten::as_strided", "aten::reshape"
TELLING = frozenset({_RESTRIDE, _RESHAPE})


def cost_from_nested_calls(call: OpCall, inside: Sequence[OpCall]) -> OpCost | None:
    """The cost of one of `SIZED_INSIDE` from the calls (of `TELLING`) beneath it; None where they do not show it."""
    try:
        return _cost_nested(call, inside)
    except (UnmodeledError, IndexError):
        return None


def _cost_nested(call: OpCall, inside: Sequence[OpCall]) -> OpCost | None:
    x = get_tensor(call.args, 0)
    count = _count_result_elements(x, inside)
    if call.name in _GATHERS:
        return None if count is None else cost_indexed(x, _count_index_bytes(inside), count)
    values = get_tensor(call.args, 2)
    adds = len(call.args) > 3 and call.args[3] is True
    new_tensor = call.name in ("aten::index_put", "aten::_unsafe_index_put")
    # Without a restrided tensor beneath (the sort of an accumulating put), as many are put as there are values.
    return cost_put_elements(
        x, values, _count_index_bytes(inside), count if count is not None else numel(values), adds, new_tensor
    )


def _count_result_elements(x: TensorArg, inside: Sequence[OpCall]) -> int | None:
    for call in inside:
        if (
            call.name == _RESTRIDE
            and _is_like(get_optional_tensor(call.args, 0), x)
            and 0 in get_integers(call.args, 2)
        ):
            return math.prod(get_integers(call.args, 1))
    return None


def _is_like(value: TensorArg | None, x: TensorArg) -> bool:
    """True if it equals x, possibly with permuted dimensions."""
    return value is not None and value.dtype == x.dtype and sorted(value.shape) == sorted(x.shape)


def _count_index_bytes(inside: Sequence[OpCall]) -> float:
    """Indices are the integer tensors that are reshaped."""
    indices = [get_optional_tensor(call.args, 0) for call in inside if call.name == _RESHAPE]
    return count_read_bytes(*(index for index in indices if index is not None and index.dtype in ("int64", "int32")))
