"""The backward pass of FBGEMM's lookups, with arguments as a public trace of a recommender has them."""

from perfkit.cost.calls.op_call import OpCall, TensorArg
from perfkit.cost.formula_table import cost_op
from perfkit.cost.table_gradients import LOOKUP, NODE, cost_table_gradient


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    stride = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * shape[axis + 1]
    return TensorArg(shape, tuple(stride), dtype)


def lookup(tables: int, rows: int, width: int, indices: int, batch: int, *, weighted: bool = False) -> OpCall:
    weights = [t(0), t(rows * width, dtype="fp16"), t(0, dtype="fp16"), t(0, 0, dtype="fp16")]
    places = [t(tables, dtype="int32"), t(tables, dtype="int64"), t(tables + 1, dtype="int32"), None, None]
    read = [t(tables + 1, dtype="int64"), None, t(indices, dtype="int64"), t(tables * batch + 1, dtype="int64")]
    scales = t(indices) if weighted else None
    return OpCall(LOOKUP, (*weights, *places, *read, None, scales, None, t(0, dtype="int32"), *[None] * 3, t(rows)))


GRADIENT = OpCall(NODE, (t(32, 3 * 8),))  # of 32 bags in 3 tables with rows of 8


def test_lookups_in_a_trace_have_the_arguments_that_the_forward_formula_reads() -> None:
    assert cost_op(lookup(3, 50, 8, 100, 32)) is not None


def test_indices_are_those_of_the_lookup_with_such_an_output() -> None:
    found = cost_table_gradient(GRADIENT, [lookup(3, 50, 8, 100, 32), lookup(1, 50, 8, 7, 32)])
    assert found is not None
    around = 4 * 32 * 24 + 8 * 100 + 8 * (3 * 32 + 1)
    assert (found.flops, found.most_flops) == (100 * 8 + 4 * 8, 100 * 8 + 4 * 50 * 8)
    # Distinct rows and their state are read and written: one, or all 50.
    assert (found.bytes, found.most_bytes) == (around + 2 * (16 + 4), around + 2 * 50 * (16 + 4))
    assert "rows" in found.source


def test_several_such_lookups_widen_the_bounds_and_weights_multiply() -> None:
    found = cost_table_gradient(GRADIENT, [lookup(3, 50, 8, 100, 32), lookup(3, 500, 8, 120, 32, weighted=True)])
    assert found is not None
    assert (found.flops, found.most_flops) == (100 * 8 + 4 * 8, 2 * 120 * 8 + 4 * 120 * 8)


def test_without_such_a_lookup_nothing_is_known() -> None:
    assert cost_table_gradient(GRADIENT, [lookup(3, 50, 16, 100, 32)]) is None
    assert cost_table_gradient(OpCall(NODE, ()), [lookup(3, 50, 8, 100, 32)]) is None
