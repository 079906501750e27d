"""Moving data: copies, concatenation, repetition, views that are written out. No FLOPs but where an op adds."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    dtype_argument,
    integer,
    integers,
    numel,
    out_bytes,
    read_bytes,
    tensor,
    tensor_list,
    vector,
)
from perfkit.cost.call import OpCost


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
        tensors = [operand for position in positions for operand in tensor_list(args, position)]
        if not tensors:
            raise UnmodelledError("the list is empty or was lost")
        dtype = tensors[0].dtype
        return _moved(
            read_bytes(*tensors) + sum(out_bytes(numel(operand), operand.dtype) for operand in tensors), dtype
        )

    return formula


def _into_zeros(args: Args) -> OpCost:
    """slice_backward, select_backward(grad, input_sizes, ...): the gradient within a tensor of zeros."""
    grad = tensor(args, 0)
    return _moved(read_bytes(grad) + out_bytes(math.prod(integers(args, 1)), grad.dtype), grad.dtype)


def _scalar(args: Args) -> OpCost:
    """_local_scalar_dense(self): one element to the host."""
    x = tensor(args, 0)
    return _moved(out_bytes(1, x.dtype), x.dtype)


def _slice_copy(args: Args) -> OpCost:
    """slice_scatter, select_scatter, diagonal_scatter(self, src, ...): self anew, with src at some places."""
    x, source = tensor(args, 0), tensor(args, 1)
    kept = max(numel(x) - numel(source), 0)
    return _moved(read_bytes(source) + out_bytes(kept, x.dtype) + out_bytes(numel(x), x.dtype), x.dtype)


def _diag_embed(args: Args) -> OpCost:
    """diag_embed(self, offset, ...): the last dimension on the diagonal of a matrix of zeros."""
    x = tensor(args, 0)
    offset = integer(args, 1) if len(args) > 1 else 0
    side = x.shape[-1] + abs(offset)
    return _moved(read_bytes(x) + out_bytes(numel(x) // max(x.shape[-1], 1) * side**2, x.dtype), x.dtype)


def _to_padded(args: Args) -> OpCost:
    """_jagged_to_padded_dense_forward(values, offsets[], max_lengths[], padding): rows of each sample, padded."""
    values, offsets, lengths = tensor(args, 0), tensor_list(args, 1), integers(args, 2)
    if not offsets:
        raise UnmodelledError("no offsets")
    outputs = (offsets[0].shape[0] - 1) * math.prod(lengths) * math.prod(values.shape[1:])
    offset_bytes = sum(8 * numel(offset) for offset in offsets)
    return _moved(read_bytes(values) + offset_bytes + out_bytes(outputs, values.dtype), values.dtype)


def _to_jagged(args: Args) -> OpCost:
    """_padded_dense_to_jagged_forward(dense, offsets[], total_L): only the rows that are kept are read."""
    dense, offsets, rows = tensor(args, 0), tensor_list(args, 1), integer(args, 2)
    kept = rows * math.prod(dense.shape[1 + len(offsets) :])
    return _moved(2 * out_bytes(kept, dense.dtype) + sum(8 * numel(offset) for offset in offsets), dense.dtype)


# Views whose result is written out (functionalisation, and older compilers), and ops that only rearrange.
_CLONES = (
    "clone flip roll tril triu tril_ triu_ rot90 _pin_memory lift_fresh_copy pixel_shuffle pixel_unshuffle"
    " channel_shuffle native_channel_shuffle alias_copy detach_copy view_copy _reshape_copy permute_copy t_copy"
    " transpose_copy squeeze_copy unsqueeze_copy _conj_copy _neg_view_copy view_as_real_copy view_as_complex_copy"
    " split_with_sizes_copy split_copy unbind_copy mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight to_mkldnn"
    " _to_dense int_repr"
)

FORMULAS: dict[str, Formula] = {
    "aten::copy_": _copy,
    "aten::copy": _copy,
    "aten::_copy_from": _copy,
    "aten::_copy_from_and_resize": _copy,
    **{f"aten::{name}": _clone for name in _CLONES.split()},
    "aten::_to_copy": _convert,
    "aten::repeat": _repeat,
    "aten::cat": _lists(0),
    "aten::_cat": _lists(0),
    "aten::stack": _lists(0),
    "aten::_stack": _lists(0),
    "aten::_chunk_cat": _lists(0),
    "fsdp::chunk_cat": _lists(0),
    "fsdp::all_gather_copy_in": _lists(0),
    "fsdp::split_with_sizes_copy": _clone,
    "aten::slice_backward": _into_zeros,
    "aten::select_backward": _into_zeros,
    "aten::diagonal_backward": _into_zeros,
    "aten::slice_scatter": _slice_copy,
    "aten::select_scatter": _slice_copy,
    "aten::diagonal_scatter": _slice_copy,
    "aten::as_strided_scatter": _slice_copy,
    "aten::diag_embed": _diag_embed,
    "aten::_jagged_to_padded_dense_forward": _to_padded,
    "aten::_padded_dense_to_jagged_forward": _to_jagged,
    "aten::_local_scalar_dense": _scalar,
    "aten::_assert_async": _scalar,
}
