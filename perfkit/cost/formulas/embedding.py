"""Embedding tables: row gathers, bags, and their gradients."""

from perfkit.cost.calls.args import (
    Args,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_optional_tensor,
    get_tensor,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.formulas.indexing import AT_LEAST, POSITION, SOURCE, cost_gathered, cost_moved

OPS = OpFamily(OpClass.INDEX)


@OPS.formula("embedding", flops=Flops.MOVES)
def _cost_embedding(args: Args) -> OpCost:
    """embedding(weight, indices, ...)."""
    weight, indices = get_tensor(args, 0, 2), get_tensor(args, 1)
    return cost_gathered(weight, indices, numel(indices) * weight.shape[1])


@OPS.formula("embedding_dense_backward")
def _cost_embedding_backward(args: Args) -> OpCost:
    """embedding_dense_backward(grad, indices, num_weights, ...): rows are added into a new table.

    Where the number of rows was not recorded, the rows that the gradient fills at most are a lower bound.
    """
    grad, indices = get_tensor(args, 0), get_tensor(args, 1)
    rows = args[2] if len(args) > 2 and isinstance(args[2], int) else None
    outputs = rows * grad.shape[-1] if rows is not None else 0
    nbytes = count_read_bytes(grad, indices) + count_output_bytes(outputs, grad.dtype)
    return cost_moved(nbytes, grad.dtype, numel(grad), SOURCE if rows is not None else AT_LEAST)


@OPS.formula("_embedding_bag _embedding_bag_forward_only")
def _cost_embedding_bag(args: Args) -> OpCost:
    """_embedding_bag(weight, indices, offsets, scale_grad, mode, sparse, per_sample_weights, include_last_offset, ...):
    rows of a bag are added; also writes the bag of each index and the size of each bag."""
    weight, indices, offsets = get_tensor(args, 0, 2), get_tensor(args, 1), get_tensor(args, 2)
    scales = get_optional_tensor(args, 6)
    last = len(args) > 7 and args[7] is True
    bags = max(numel(offsets) - last, 0)
    elements = numel(indices) * weight.shape[1]
    reads = min(count_output_bytes(elements, weight.dtype), count_distinct_bytes(weight)) + count_read_bytes(
        indices, offsets, scales
    )
    writes = count_output_bytes(bags * weight.shape[1], weight.dtype) + _get_index_size(indices) * (
        numel(indices) + bags
    )
    return cost_moved(reads + writes, weight.dtype, elements * (2 if scales is not None else 1))


def _get_index_size(indices: TensorArg) -> int:
    return 4 if indices.dtype == "int32" else POSITION


def _cost_bags_gradient(grad: TensorArg, indices: TensorArg, others: float, rows: int) -> OpCost:
    """The gradient of each bag is added to the rows of its indices, in a new table."""
    nbytes = count_read_bytes(grad, indices) + others + count_output_bytes(rows * grad.shape[1], grad.dtype)
    return cost_moved(nbytes, grad.dtype, numel(indices) * grad.shape[1])


@OPS.formula("_embedding_bag_dense_backward")
def _cost_embedding_bag_dense_backward(args: Args) -> OpCost:
    """_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...)."""
    others = count_read_bytes(get_tensor(args, 2), get_optional_tensor(args, 3))
    return _cost_bags_gradient(get_tensor(args, 0, 2), get_tensor(args, 1), others, get_integer(args, 5))


@OPS.formula("_embedding_bag_backward")
def _cost_embedding_bag_backward(args: Args) -> OpCost:
    """_embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale, mode,
    sparse, ...): a sparse gradient has a row for each index."""
    grad, indices = get_tensor(args, 0, 2), get_tensor(args, 1)
    others = count_read_bytes(get_tensor(args, 3), get_optional_tensor(args, 4))
    if len(args) > 9 and args[9] is True:
        rows = count_output_bytes(numel(indices) * grad.shape[1], grad.dtype)
        return cost_moved(count_read_bytes(grad, indices) + others + rows, grad.dtype)
    return _cost_bags_gradient(grad, indices, others, get_integer(args, 6))


@OPS.formula("_embedding_bag_per_sample_weights_backward")
def _cost_sample_weights_backward(args: Args) -> OpCost:
    """_embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode): dot products."""
    grad, weight, indices = get_tensor(args, 0, 2), get_tensor(args, 1, 2), get_tensor(args, 2)
    elements = numel(indices) * weight.shape[1]
    reads = min(count_output_bytes(elements, weight.dtype), count_distinct_bytes(weight)) + count_read_bytes(
        grad, indices, get_tensor(args, 4)
    )
    return cost_moved(reads + count_output_bytes(numel(indices), grad.dtype), grad.dtype, 2 * elements)
