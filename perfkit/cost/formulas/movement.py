"""Ops that move data: copies, concatenation, repetition, materialized views. Only ops that add have FLOPs."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_integer,
    get_integers,
    get_tensor,
    get_tensor_list,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.calls.output_rules import infer_concatenated, make_like

OPS = OpFamily(OpClass.OTHER, Flops.MOVES)


def _cost_moved(nbytes: float, dtype: str, adds: float = 0.0) -> OpCost:
    return make_vector_cost(adds, nbytes, dtype, "data movement")


@OPS.formula("copy_ copy", op_class=OpClass.COPY)
@OPS.formula("_copy_from _copy_from_and_resize")
def _cost_copy(args: Args) -> OpCost:
    """copy_(self, src): reads the source and writes the destination, which is not read."""
    destination, source = get_tensor(args, 0), get_tensor(args, 1)
    return _cost_moved(
        count_read_bytes(source) + count_output_bytes(numel(destination), destination.dtype), destination.dtype
    )


@OPS.formula("clone flip roll", op_class=OpClass.COPY, outputs=make_like(0))
@OPS.formula("tril triu tril_ triu_", op_class=OpClass.POINTWISE)
@OPS.formula(
    "rot90 _pin_memory lift_fresh_copy pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle"
    " alias_copy detach_copy view_copy _reshape_copy permute_copy t_copy transpose_copy squeeze_copy"
    " unsqueeze_copy _conj_copy _neg_view_copy view_as_real_copy view_as_complex_copy split_with_sizes_copy"
    " split_copy unbind_copy to_mkldnn _to_dense int_repr fsdp::split_with_sizes_copy"
)
@OPS.formula("mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight", op_class=OpClass.CONVOLUTION)
def _cost_clone(args: Args) -> OpCost:
    """Copies, views whose result is written out (functionalisation, and older compilers), and ops that rearrange."""
    x = get_tensor(args, 0)
    return _cost_moved(count_read_bytes(x) + count_output_bytes(numel(x), x.dtype), x.dtype)


@OPS.formula("_to_copy", op_class=OpClass.COPY, outputs=make_like(0, dtype_at=1))
def _cost_convert(args: Args) -> OpCost:
    """_to_copy(self, dtype, ...)."""
    x = get_tensor(args, 0)
    return _cost_moved(
        count_read_bytes(x) + count_output_bytes(numel(x), get_dtype_argument(args, 1) or x.dtype), x.dtype
    )


@OPS.formula("repeat")
def _cost_repeat(args: Args) -> OpCost:
    x = get_tensor(args, 0)
    return _cost_moved(
        count_read_bytes(x) + count_output_bytes(numel(x) * math.prod(get_integers(args, 1)), x.dtype), x.dtype
    )


def _make_list_copy(*positions: int) -> Formula:
    """Every tensor of the lists is read, and as much is written (cat, stack, splitting copies)."""

    def formula(args: Args) -> OpCost:
        tensors = [operand for position in positions for operand in get_tensor_list(args, position)]
        if not tensors:
            raise UnmodeledError("the list is empty or was not recorded")
        dtype = tensors[0].dtype
        return _cost_moved(
            count_read_bytes(*tensors) + sum(count_output_bytes(numel(operand), operand.dtype) for operand in tensors),
            dtype,
        )

    return formula


@OPS.formula("slice_backward select_backward diagonal_backward")
def _cost_into_zeros(args: Args) -> OpCost:
    """slice_backward, select_backward(grad, input_sizes, ...): the gradient within a tensor of zeros."""
    grad = get_tensor(args, 0)
    return _cost_moved(
        count_read_bytes(grad) + count_output_bytes(math.prod(get_integers(args, 1)), grad.dtype), grad.dtype
    )


@OPS.formula("_local_scalar_dense _assert_async")
def _cost_scalar(args: Args) -> OpCost:
    """Cost _local_scalar_dense(self): copies one element to the CPU."""
    x = get_tensor(args, 0)
    return _cost_moved(count_output_bytes(1, x.dtype), x.dtype)


@OPS.formula("slice_scatter select_scatter diagonal_scatter as_strided_scatter")
def _cost_slice_copy(args: Args) -> OpCost:
    """slice_scatter, select_scatter, diagonal_scatter(self, src, ...): self anew, with src at some places."""
    x, source = get_tensor(args, 0), get_tensor(args, 1)
    kept = max(numel(x) - numel(source), 0)
    return _cost_moved(
        count_read_bytes(source) + count_output_bytes(kept, x.dtype) + count_output_bytes(numel(x), x.dtype), x.dtype
    )


@OPS.formula("diag_embed")
def _cost_diag_embed(args: Args) -> OpCost:
    """diag_embed(self, offset, ...): the last dimension on the diagonal of a matrix of zeros."""
    x = get_tensor(args, 0)
    offset = get_integer(args, 1) if len(args) > 1 else 0
    side = x.shape[-1] + abs(offset)
    return _cost_moved(
        count_read_bytes(x) + count_output_bytes(numel(x) // max(x.shape[-1], 1) * side**2, x.dtype), x.dtype
    )


@OPS.formula("_jagged_to_padded_dense_forward")
def _cost_to_padded(args: Args) -> OpCost:
    """_jagged_to_padded_dense_forward(values, offsets[], max_lengths[], padding): rows of each sample, padded."""
    values, offsets, lengths = get_tensor(args, 0), get_tensor_list(args, 1), get_integers(args, 2)
    if not offsets:
        raise UnmodeledError("no offsets")
    outputs = (offsets[0].shape[0] - 1) * math.prod(lengths) * math.prod(values.shape[1:])
    offset_bytes = sum(8 * numel(offset) for offset in offsets)
    return _cost_moved(
        count_read_bytes(values) + offset_bytes + count_output_bytes(outputs, values.dtype), values.dtype
    )


@OPS.formula("_padded_dense_to_jagged_forward")
def _cost_to_jagged(args: Args) -> OpCost:
    """_padded_dense_to_jagged_forward(dense, offsets[], total_L): only the rows that are kept are read."""
    dense, offsets, rows = get_tensor(args, 0), get_tensor_list(args, 1), get_integer(args, 2)
    kept = rows * math.prod(dense.shape[1 + len(offsets) :])
    return _cost_moved(
        2 * count_output_bytes(kept, dense.dtype) + sum(8 * numel(offset) for offset in offsets), dense.dtype
    )


OPS.add("cat", _make_list_copy(0), op_class=OpClass.COPY, outputs=infer_concatenated)
OPS.add("_cat stack", _make_list_copy(0), op_class=OpClass.COPY)
OPS.add("_stack _chunk_cat fsdp::chunk_cat", _make_list_copy(0))
OPS.add("fsdp::all_gather_copy_in", _make_list_copy(0), op_class=OpClass.COMMUNICATION)
