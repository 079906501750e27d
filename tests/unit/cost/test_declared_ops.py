"""Declarations of ops: each once, and each with FLOPs or with the statement that it has none."""

import itertools
from collections.abc import Iterator

import pytest

from perfkit.cost.calls.args import Args, Formula, UnmodeledError
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import Flops, OpDeclaration, OpFamily
from perfkit.cost.formula_table import OPS, merge_families
from perfkit.cost.op_class import classify_op


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    strides = tuple(itertools.accumulate((1, *shape[:0:-1]), lambda stride, size: stride * size))[::-1]
    return TensorArg(shape, strides if shape else (), dtype)


# Calls that most formulas accept, in all combinations: so many of one tensor, then other arguments.
TENSORS = (t(2, 4, 6, 6), t(3, 5, 5), t(6, 6), t(6), (t(6, 6), t(6, 6)))
COUNTS = (1, 2, 3, 4, 5, 8, 12, 17)
OTHERS: tuple[Args, ...] = (
    (),
    (2,),
    ((1, 0),),
    ((3, 4, 5), 0, 0, 2),
    (1, 1, True, (1, 1), (2, 2)),
    ((2, 2), (2, 2), (0, 0), (1, 1), False),
    ((1, 1), (1, 1), (1, 1), False, (0, 0), 1),
)
CALLS: tuple[Args, ...] = tuple(
    (tensor,) * count + others for tensor in TENSORS for count in COUNTS for others in OTHERS
)
# Calls of the others.
INDEX, VIDEO, HEADS, CACHE = t(3, dtype="int64"), t(1, 2, 4, 4, 4), t(4, 32, 128), t(50, 8, 16, 16, 8)
CELLS = (t(32, 16), t(32, 8), t(32), t(32))
PAGED = (CACHE, t(50, 8, 128, 16), 8, 0.1, t(4, 100, dtype="int32"), t(4, dtype="int32"), 16, 1000, None)
LOOKUP = (t(0), t(900), t(0), t(0, 0), t(2), t(2), t(3), 96, 64, t(3), 20, t(100), t(17))
ROWS, WEIGHT, TABLE = t(8, 64), t(4, 32, 64), t(4, 10, dtype="int32")
EXAMPLES: dict[str, Args] = {
    "aten::mv": (t(3, 5), t(5)),
    "aten::addmv": (t(4), t(4, 3), t(3), 1, 1),
    "aten::convolution_backward": (
        *(t(2, 4, 6, 6), t(2, 8, 5, 5), t(8, 4, 2, 2), (4,)),
        *((1, 1), (0, 0), (1, 1), True, (0, 0), 1, (True, True, True)),
    ),
    "aten::index_put": (t(6, 6), (INDEX,), t(3, 6), True),
    "aten::index_put_": (t(6, 6), (INDEX,), t(3, 6), True),
    "aten::put_": (t(6, 6), INDEX, t(3), True),
    "aten::_ctc_loss": (t(50, 4, 20), t(4, 10, dtype="int64"), (), (), 0, False),
    "aten::max_pool3d_with_indices": (VIDEO, (2, 2, 2), (), (0, 0, 0), (1, 1, 1), False),
    "aten::avg_pool3d": (VIDEO, (2, 2, 2), (), (0, 0, 0), False, True, None),
    "aten::fractional_max_pool2d": (t(2, 3, 9, 9), (2, 2), (4, 4), t(2, 3, 2)),
    "aten::fractional_max_pool3d": (VIDEO, (2, 2, 2), (2, 2, 2), t(1, 2, 3)),
    "aten::_cudnn_rnn": (t(10, 4, 16), CELLS, 4, None, t(1, 4, 8), None, 2, 8, 0, 1),
    "aten::miopen_rnn": (t(10, 4, 16), CELLS, 4, t(1, 4, 8), None, 2, 8, 1),
    "aten::_cudnn_rnn_backward": (t(10, 4, 16), CELLS, 4, t(900), t(1, 4, 8), None, t(10, 4, 8), t(10, 4, 8)),
    "aten::_fft_r2c": (t(3, 8), (1,), 0, True),
    "aten::_fft_c2r": (t(3, 5, dtype="complex64"), (1,), 0, 8),
    "torchvision::roi_align": (t(2, 3, 4, 6), t(10, 5), 0.25, 7, 7, 2, False),
    "fbgemm::FP8RowwiseQuantizedToFloat": (t(6, 10),),
    "fbgemm::split_embedding_codegen_lookup_sgd_function": (*LOOKUP, 0, None),
    "vllm::inplace_fused_experts": (t(64, 512), t(8, 512, 512), t(8, 512, 256), t(64, 2)),
    "_C::paged_attention_v1": (HEADS, HEADS, *PAGED),
    "_C::paged_attention_v2": (HEADS, t(4, 32, 2), t(4, 32, 2), t(4, 32, 2, 128), HEADS, *PAGED),
    "_C::allspark_w8a16_gemm": (ROWS, t(32, 64), t(32), None, 32),
    "_C::marlin_gemm": (ROWS, None, t(4, 64, dtype="int32"), t(64), t(16, dtype="int32"), 7, 8, 32, 64),
    "_C::ggml_mul_mat_a8": (t(32, 64), ROWS, 2, 32),
    "_C::ggml_moe_a8": (ROWS, WEIGHT, t(16), t(16), t(1), 2, 32, 2, 8),
    "_moe_C::moe_wna16_gemm": (ROWS, t(8, 2, 32), WEIGHT),
    "_moe_C::moe_wna16_marlin_gemm": (ROWS, None, WEIGHT, t(16), 16, 2, False, 7, 8, 32, 64),
    "fused_moe_trtllm_sm100::trtllm_fp8_block_scale_moe": (
        *(t(8, 4), None, ROWS, t(8), t(4, 64, 64), t(4), t(4, 64, 32), t(4)),
        *(4, 2, None, None, 32, 0, 4),
    ),
    "sgl_kernel::moe_fused_gate": (t(8, 4), t(4), 1, 1, 2),
    "sgl_kernel::bmm_fp8": (t(2, 3, 4), t(2, 4, 5), t(2, 3, 5)),
    "_moe_C::moe_sum": (t(8, 2, 64), ROWS),
    "sgl_kernel::apply_shuffle_mul_sum": (t(16, 64), ROWS, t(16), t(16)),
    "_flashmla_C::fwd_kvcache_mla": (t(4, 1, 16, 576), t(50, 64, 1, 576), 512, t(4), TABLE),
    "_C::sm100_cutlass_mla_decode": (HEADS, t(4, 32), t(4, 16, 512), t(4, 16, 64), t(50, 64, 576), t(4), TABLE),
    "sgl_kernel::cutlass_mla_decode": (HEADS, t(4, 16, 512), t(4, 16, 64), t(50, 64, 576), t(4), TABLE),
    "fmha_gen::trtllm_paged_attention_decode": (
        *(HEADS, None, HEADS, t(50, 8, 16, 128), t(50, 8, 16, 128), t(9), TABLE, t(4)),
        *(100, 0.1, 1.0, -1.0, -1, -1, -1),
    ),
    "_C::fused_qk_norm_rope": (t(8, 512), 2, 1, 1, 128, 1e-6, t(128), t(128)),
    "DaoAILab::_causal_conv1d_fwd_cpp": (t(2, 64, 9), t(64, 4), None, None, None, t(2, 64, 9), None, True),
}


def list_costs(op: OpDeclaration, names: list[str]) -> Iterator[OpCost]:
    for args in (*(EXAMPLES[name] for name in names if name in EXAMPLES), *CALLS):
        try:
            yield op.formula(args)
        except (UnmodeledError, IndexError, ValueError, ZeroDivisionError):
            continue


def test_each_op_has_flops_or_says_that_it_has_none() -> None:
    names: dict[tuple[Formula, bool], list[str]] = {}
    for name, op in OPS.items():
        names.setdefault((op.formula, op.flops is Flops.COUNTED), []).append(name)
    wrong = [
        same
        for (_, counted), same in names.items()
        if any(cost.flops or cost.most_flops for cost in list_costs(OPS[same[0]], same)) is not counted
    ]
    assert wrong == []  # no FLOPs in any call above, though declared; or FLOPs, though declared to have none


def test_no_op_is_declared_twice() -> None:
    family, other = OpFamily(OpClass.OTHER), OpFamily(OpClass.COPY)
    family.add("mine::op", next(iter(OPS.values())).formula)
    with pytest.raises(ValueError, match="mine::op"):
        family.add("mine::other mine::op", next(iter(OPS.values())).formula)
    other.formula("mine::op")(next(iter(OPS.values())).formula)
    with pytest.raises(ValueError, match="mine::op"):
        merge_families((family, other))


def test_ops_of_the_same_name_in_several_packages_have_one_class() -> None:
    assert {name: op.op_class for name, op in OPS.items()} == {name: classify_op(name) for name in OPS}
