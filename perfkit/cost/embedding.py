"""Tables of embeddings: rows gathered, added up in bags, and their gradients added into new tables."""

from perfkit.cost.args import (
    Args,
    Formula,
    distinct_bytes,
    integer,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
)
from perfkit.cost.call import OpCost, TensorArg
from perfkit.cost.indexing import AT_LEAST, POSITION, SOURCE, gathered, moved


def _embedding(args: Args) -> OpCost:
    """embedding(weight, indices, ...)."""
    weight, indices = tensor(args, 0, 2), tensor(args, 1)
    return gathered(weight, indices, numel(indices) * weight.shape[1])


def _embedding_backward(args: Args) -> OpCost:
    """embedding_dense_backward(grad, indices, num_weights, ...): rows are added into a new table.

    Where the number of rows was not recorded, the rows that the gradient fills at most are a lower bound.
    """
    grad, indices = tensor(args, 0), tensor(args, 1)
    rows = args[2] if len(args) > 2 and isinstance(args[2], int) else None
    outputs = rows * grad.shape[-1] if rows is not None else 0
    nbytes = read_bytes(grad, indices) + out_bytes(outputs, grad.dtype)
    return moved(nbytes, grad.dtype, numel(grad), SOURCE if rows is not None else AT_LEAST)


def _embedding_bag(args: Args) -> OpCost:
    """_embedding_bag(weight, indices, offsets, scale_grad, mode, sparse, per_sample_weights, include_last_offset, ...):
    rows of a bag are added; also writes the bag of each index and the size of each bag."""
    weight, indices, offsets = tensor(args, 0, 2), tensor(args, 1), tensor(args, 2)
    scales = optional_tensor(args, 6)
    last = len(args) > 7 and args[7] is True
    bags = max(numel(offsets) - last, 0)
    elements = numel(indices) * weight.shape[1]
    reads = min(out_bytes(elements, weight.dtype), distinct_bytes(weight)) + read_bytes(indices, offsets, scales)
    writes = out_bytes(bags * weight.shape[1], weight.dtype) + _index_size(indices) * (numel(indices) + bags)
    return moved(reads + writes, weight.dtype, elements * (2 if scales is not None else 1))


def _index_size(indices: TensorArg) -> int:
    return 4 if indices.dtype == "int32" else POSITION


def _bags_gradient(grad: TensorArg, indices: TensorArg, others: float, rows: int) -> OpCost:
    """The gradient of each bag is added to the rows of its indices, in a new table."""
    nbytes = read_bytes(grad, indices) + others + out_bytes(rows * grad.shape[1], grad.dtype)
    return moved(nbytes, grad.dtype, numel(indices) * grad.shape[1])


def _embedding_bag_dense_backward(args: Args) -> OpCost:
    """_embedding_bag_dense_backward(grad, indices, offset2bag, bag_size, maximum_indices, num_weights, ...)."""
    others = read_bytes(tensor(args, 2), optional_tensor(args, 3))
    return _bags_gradient(tensor(args, 0, 2), tensor(args, 1), others, integer(args, 5))


def _embedding_bag_backward(args: Args) -> OpCost:
    """_embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices, num_weights, scale, mode,
    sparse, ...): a sparse gradient has a row for each index."""
    grad, indices = tensor(args, 0, 2), tensor(args, 1)
    others = read_bytes(tensor(args, 3), optional_tensor(args, 4))
    if len(args) > 9 and args[9] is True:
        rows = out_bytes(numel(indices) * grad.shape[1], grad.dtype)
        return moved(read_bytes(grad, indices) + others + rows, grad.dtype)
    return _bags_gradient(grad, indices, others, integer(args, 6))


def _sample_weights_backward(args: Args) -> OpCost:
    """_embedding_bag_per_sample_weights_backward(grad, weight, indices, offsets, offset2bag, mode): dot products."""
    grad, weight, indices = tensor(args, 0, 2), tensor(args, 1, 2), tensor(args, 2)
    elements = numel(indices) * weight.shape[1]
    reads = min(out_bytes(elements, weight.dtype), distinct_bytes(weight)) + read_bytes(grad, indices, tensor(args, 4))
    return moved(reads + out_bytes(numel(indices), grad.dtype), grad.dtype, 2 * elements)


FORMULAS: dict[str, Formula] = {
    "aten::embedding": _embedding,
    "aten::embedding_dense_backward": _embedding_backward,
    "aten::_embedding_bag": _embedding_bag,
    "aten::_embedding_bag_forward_only": _embedding_bag,
    "aten::_embedding_bag_backward": _embedding_bag_backward,
    "aten::_embedding_bag_dense_backward": _embedding_bag_dense_backward,
    "aten::_embedding_bag_per_sample_weights_backward": _sample_weights_backward,
}
