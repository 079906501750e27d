"""Ops without work of their own: views, allocation, bookkeeping, and compositions of other ops."""

from perfkit.cost.calls.op_call import ComputeUnit, OpCost
from perfkit.cost.calls.output_rules import OutputRule, infer_resized, make_sized


def _add_aten_prefix(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


# Ops that allocate a tensor of known size, and write none of it.
ALLOCATIONS: dict[str, OutputRule] = {
    "aten::empty": make_sized(0, 1),
    "aten::empty_strided": make_sized(0, 2),
    "aten::new_empty": make_sized(1, 2, like=0),
    "aten::new_empty_strided": make_sized(1, 3, like=0),
    "aten::resize_": infer_resized,
}
# Views and bookkeeping touch no element; allocation writes none.
FREE = _add_aten_prefix(
    "view _unsafe_view view_as reshape_alias _reshape_alias as_strided as_strided_ expand expand_as t t_"
    " transpose transpose_ permute squeeze squeeze_ unsqueeze unsqueeze_ select slice narrow split"
    " split_with_sizes unsafe_split unsafe_split_with_sizes chunk unbind unfold diagonal alias detach detach_"
    " lift_fresh lift view_as_real view_as_complex movedim flatten unflatten resolve_conj resolve_neg _conj"
    " _neg_view conj empty_like empty_quantized resize_as_"
    " set_ record_stream is_nonzero size stride dim sym_size sym_stride sym_numel sym_storage_offset is_same_size"
    " _fused_sdp_choice requires_grad_ _version result_type can_cast _has_compatible_shallow_copy_type is_pinned"
    " set_data _nested_tensor_size _debug_has_internal_overlap cudnn_is_acceptable _use_cudnn_rnn_flatten_weight"
    " _nnpack_available is_complex is_contiguous is_floating_point is_signed is_neg is_conj is_inference is_leaf"
    " is_distributed is_set_to is_coalesced _has_same_storage_numel numel storage_offset get_device retains_grad"
    " output_nr data real imag _is_zerotensor _assert_tensor_metadata _assert_scalar _functional_assert_scalar"
    " sym_constrain_range sym_constrain_range_for_size _resize_output _resize_output_ empty_permuted _lazy_clone"
    " sparse_dim dense_dim indices values _indices _values crow_indices col_indices q_scale q_zero_point qscheme"
    " _cufft_get_plan_cache_size _cufft_get_plan_cache_max_size _make_dual _fw_primal _unpack_dual _backward"
    " promote_types sym_is_contiguous"
) | {
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "prim::device",
    "detach",
    "detach_",
    *ALLOCATIONS,
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

# Compositions: their work is recorded beneath them, op by op. The list only saves a query to torch.
COMPOSITES = _add_aten_prefix(
    "linear matmul einsum conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d to contiguous"
    " reshape dropout dropout_ feature_dropout layer_norm group_norm batch_norm instance_norm rms_norm"
    " _batch_norm_impl_index _batch_norm_impl_index_backward softmax log_softmax cross_entropy_loss nll_loss"
    " nll_loss_nd nll_loss2d scaled_dot_product_attention _scaled_dot_product_attention_math max_pool1d"
    " max_pool1d_with_indices max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d"
    " adaptive_max_pool1d avg_pool1d item multiply multiply_ divide divide_ subtract subtract_ type_as float half"
    " bfloat16 double embedding_backward pad one_hot tile repeat_interleave index_select_backward lstm gru"
    " rnn_tanh rnn_relu grouped_mm outer ger inner tensordot kron clip clip_ isclose where_ hstack vstack concat"
    " concatenate column_stack to_dense square_ norm_except_dim meshgrid cartesian_prod linalg_norm nuclear_norm"
    " value_selecting_reduction_backward gradient cosine_embedding_loss binary_cross_entropy_with_logits_ moveaxis"
    " swapaxes swapdims numpy_T adjoint mT unsafe_chunk tensor_split hsplit vsplit dsplit ravel atleast_1d"
    " flatten_dense_tensors unflatten_dense_tensors broadcast_tensors pin_memory gather_backward positive square"
    " float_power true_divide relu6 isfinite absolute absolute_ alpha_dropout argsort argwhere bilinear"
    " broadcast_to cdist chain_matmul corrcoef cosine_similarity cov cross ctc_loss det diag diagflat diff"
    " embedding_bag fliplr flipud gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell hinge_embedding_loss inverse"
    " istft stft kl_div l1_loss linalg_det linalg_inv linalg_solve linalg_cholesky linalg_eigh linalg_eigvalsh"
    " linalg_lu_factor linalg_matmul linalg_matrix_norm linalg_matrix_power linalg_multi_dot linalg_slogdet"
    " linalg_svd linalg_svdvals linalg_vecdot logdet log_sigmoid margin_ranking_loss multilabel_margin_loss prelu"
    " rrelu selu selu_ svd qr triplet_margin_loss trapz true_divide_ vander grid_sampler greater greater_equal"
    " less less_equal not_equal greater_ less_ nanmean negative negative_ msort quantile nanquantile reshape_as"
    " row_stack dstack rrelu_ relu6_ slogdet sum_to_size take_along_dim pairwise_distance poisson_nll_loss"
    " pad_sequence pinverse matrix_power matrix_exp fix fix_ histogramdd _weight_norm _pad_packed_sequence"
    " _pad_enum _pad_circular _autocast_to_full_precision _autocast_to_reduced_precision _convolution_mode"
    " _thnn_fused_lstm_cell_backward masked_select_backward cumprod_backward cummaxmin_backward to_sparse"
    " conv_tbc_backward feature_alpha_dropout fft_fft fft_fft2 fft_fftn fft_fftshift fft_hfft fft_ifft fft_ifft2"
    " fft_ifftn fft_ifftshift fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn"
    " fill_diagonal_ fake_quantize_per_tensor_affine fake_quantize_per_channel_affine special_softmax"
    " special_log_softmax special_logsumexp special_expit special_erf special_gammaln special_digamma special_exp2"
    " special_expm1 special_log1p special_round special_sinc special_xlogy special_logit slow_conv3d thnn_conv2d"
    " arccos arcsin arctan arctan2 arccosh arcsinh arctanh _cast_Float _cast_Half _cast_Long _cast_Int"
    " _saturate_weight_to_fp16 embedding_sparse_backward isreal __and__ __or__ __xor__ __iand__ __ior__ __ixor__"
    " swapaxes_ swapdims_ H mH matrix_H"
)


def is_free(name: str) -> bool:
    """True if an op does no work of its own, or is a collective."""
    return name in FREE or name.startswith(COLLECTIVES)


def get_free_cost(name: str) -> OpCost | None:
    """The cost of an op without arithmetic and traffic of its own; None for other ops."""
    if name in FREE:
        return OpCost(0.0, 0.0, ComputeUnit.VECTOR, "", "no work")
    if name.startswith(COLLECTIVES):
        return OpCost(0.0, None, ComputeUnit.VECTOR, "", "collective")
    return None
