"""Ops that do no work of their own on data: views, allocation, bookkeeping, and compositions of other ops."""

from perfkit.cost.call import OpCost, Unit


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Views and bookkeeping touch no element; allocation writes none.
FREE = _aten(
    "view _unsafe_view view_as reshape_alias _reshape_alias as_strided as_strided_ expand expand_as t t_ transpose"
    " transpose_ permute squeeze squeeze_ unsqueeze unsqueeze_ select slice narrow split split_with_sizes chunk"
    " unbind unfold diagonal alias detach detach_ lift_fresh lift view_as_real view_as_complex movedim flatten"
    " unflatten resolve_conj resolve_neg _conj _neg_view conj empty empty_like empty_strided new_empty"
    " new_empty_strided empty_quantized resize_ resize_as_ set_ record_stream is_nonzero size stride dim"
    " sym_size sym_stride sym_numel sym_storage_offset is_same_size _fused_sdp_choice requires_grad_ _version"
    " result_type can_cast _has_compatible_shallow_copy_type is_pinned set_data"
    " _nested_tensor_size _debug_has_internal_overlap"
) | {
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "prim::device",
    "detach",
    "detach_",
}

# Collectives move data between ranks and compute next to nothing; their traffic is no traffic of this device's memory.
COLLECTIVES = (
    "c10d::",
    "_c10d_functional::",
    "c10d_functional::",
    "_c10d_functional_autograd::",
    "symm_mem::",
    "nccl:",
)

# Compositions: what they do is recorded beneath them, op by op. The list only spares a question to torch.
COMPOSITES = _aten(
    "linear matmul einsum conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d to contiguous"
    " reshape dropout dropout_ feature_dropout layer_norm group_norm batch_norm instance_norm rms_norm"
    " _batch_norm_impl_index _batch_norm_impl_index_backward softmax log_softmax cross_entropy_loss nll_loss"
    " nll_loss_nd nll_loss2d scaled_dot_product_attention _scaled_dot_product_attention_math max_pool1d"
    " max_pool1d_with_indices max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
    " adaptive_max_pool1d avg_pool1d item multiply multiply_ divide divide_ subtract subtract_ type_as float half"
    " bfloat16 double embedding_backward pad one_hot tile repeat_interleave index_select_backward lstm gru rnn_tanh"
    " rnn_relu grouped_mm outer ger inner tensordot kron clip clip_ isclose where_ hstack vstack concat"
    " concatenate column_stack to_dense square_ norm_except_dim meshgrid cartesian_prod linalg_norm nuclear_norm"
    " value_selecting_reduction_backward gradient cosine_embedding_loss binary_cross_entropy_with_logits_ moveaxis"
    " swapaxes swapdims numpy_T adjoint mT unsafe_chunk tensor_split hsplit vsplit dsplit ravel atleast_1d"
    " flatten_dense_tensors unflatten_dense_tensors broadcast_tensors pin_memory gather_backward positive square"
    " float_power true_divide relu6 isfinite"
)


def is_free(name: str) -> bool:
    """Whether an op does no work of its own, or is a collective."""
    return name in FREE or name.startswith(COLLECTIVES)


def free_cost(name: str) -> OpCost | None:
    """The cost of an op without arithmetic and without traffic of its own; None where the op is none of these."""
    if name in FREE:
        return OpCost(0.0, 0.0, Unit.VECTOR, "", "no work")
    if name.startswith(COLLECTIVES):
        return OpCost(0.0, None, Unit.VECTOR, "", "collective")
    return None
