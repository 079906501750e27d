"""Classes of ops by name: forward and backward, in place and not, of torch's own namespaces and of others."""

import pytest

from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op

EXAMPLES = {
    OpClass.MATMUL: "aten::mm aten::addmm aten::bmm aten::baddbmm aten::_scaled_mm aten::_grouped_mm aten::linear "
    "aten::_scaled_mm_v2 aten::_scaled_grouped_mm aten::_weight_int4pack_mm _C::cutlass_scaled_mm",
    OpClass.CONVOLUTION: "aten::cudnn_convolution aten::convolution_backward aten::mkldnn_convolution aten::conv2d",
    OpClass.ATTENTION: "aten::_scaled_dot_product_flash_attention aten::_efficient_attention_backward "
    "flash_attn::_flash_attn_forward aten::_scaled_dot_product_cudnn_attention_backward flash_attn_3::fwd "
    "_vllm_fa3_C::fwd _C::paged_attention_v2 aiter::mha_varlen_bwd",
    OpClass.SOFTMAX: "aten::_softmax aten::_softmax_backward_data aten::_log_softmax aten::_masked_softmax",
    OpClass.NORM: "aten::native_layer_norm_backward aten::cudnn_batch_norm aten::_fused_rms_norm",
    OpClass.LOSS: "aten::nll_loss_forward aten::nll_loss2d_backward aten::mse_loss aten::soft_margin_loss",
    OpClass.OPTIMIZER: "aten::_fused_adamw_ aten::_foreach_add_ bitsandbytes::optimizer_update_8bit_blockwise",
    OpClass.INDEX: "aten::embedding aten::embedding_dense_backward aten::index_put_ aten::scatter_add_ aten::nonzero",
    OpClass.COPY: "aten::copy_ aten::_to_copy aten::cat aten::clone aten::zero_",
    OpClass.REDUCTION: "aten::sum aten::mean aten::amax aten::linalg_vector_norm aten::_foreach_norm aten::logsumexp",
    OpClass.POINTWISE: "aten::add_ aten::gelu_backward aten::where aten::native_dropout aten::masked_fill_ aten::rsqrt "
    "aten::log2_ aten::atan2 aten::logit_backward aten::glu _C::silu_and_mul",
    OpClass.COMPILED: "triton_poi_fused_add_0 triton_red_fused_sum_1 graph_0_cpp_fused_add_1",
    OpClass.COMMUNICATION: "ncclDevKernel_AllReduce_Sum_f32_RING_LL nccl:all_reduce c10d::allreduce_ gloo:all_gather",
    OpClass.OTHER: "aten::max_pool2d_with_indices custom::op ProfilerStep#1",
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in EXAMPLES.items() for name in names.split()])
def test_class_of(kind: OpClass, name: str) -> None:
    assert classify_op(name) == kind
