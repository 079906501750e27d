"""What a launch and a kernel say of whether they are one node."""

import pytest

from perfkit.trace.graphs.node_tokens import NodeToken, TokenAgreement, compare_tokens, extract_grid_and_block
from perfkit.trace.model import Category
from tests.fixtures.graph_captures import ADD, ALL_REDUCE, MEMSET, NCCL, PRODUCT, RMS_NORM, TENSILE

SMALL, LARGE = b"[8,1,1]x[128,1,1]", b"[16,1,1]x[128,1,1]"
TRITON = "triton_poi_fused_mul_silu_4"


def of_op(op: str) -> NodeToken:
    return NodeToken(Category.KERNEL, "", b"", op)


def kernel(name: str, geometry: bytes = b"") -> NodeToken:
    return NodeToken(Category.KERNEL, name, geometry)


@pytest.mark.parametrize(
    ("op", "name", "says"),
    [
        ("aten::mm", PRODUCT, TokenAgreement.ALIKE),
        ("aten::mm", "void splitKreduce_kernel<32, 16, int>", TokenAgreement.UNTOLD),
        ("aten::mm", NCCL, TokenAgreement.DIFFERENT),
        ("aten::mm", ADD, TokenAgreement.DIFFERENT),
        ("aten::mm", TRITON, TokenAgreement.DIFFERENT),
        ("aten::add", ADD, TokenAgreement.ALIKE),
        ("aten::add", PRODUCT, TokenAgreement.DIFFERENT),
        ("_C::rms_norm", RMS_NORM, TokenAgreement.ALIKE),
        ("_C::silu_and_mul", RMS_NORM, TokenAgreement.UNTOLD),
        ("_C_custom_ar::all_reduce", ALL_REDUCE, TokenAgreement.ALIKE),
        ("record_param_comms", NCCL, TokenAgreement.ALIKE),
        (TRITON, TRITON, TokenAgreement.ALIKE),
        (TRITON, "triton_poi_fused_mul_silu_5", TokenAgreement.DIFFERENT),
        ("", PRODUCT, TokenAgreement.UNTOLD),
    ],
)
def test_an_op_tells_the_kind_of_its_kernel(op: str, name: str, says: TokenAgreement) -> None:
    assert compare_tokens(of_op(op), kernel(name)) == says


def test_names_and_grids_say_more_than_the_op() -> None:
    assert compare_tokens(kernel(TENSILE), kernel(TENSILE)) == TokenAgreement.ALIKE
    assert compare_tokens(kernel(TENSILE, SMALL), kernel(TENSILE, SMALL)) == TokenAgreement.SAME
    assert compare_tokens(kernel(TENSILE, SMALL), kernel(TENSILE, LARGE)) == TokenAgreement.RESIZED
    assert compare_tokens(kernel(TENSILE)._replace(op="aten::add"), kernel(PRODUCT)) == TokenAgreement.DIFFERENT


def test_what_an_op_launched_elsewhere_may_differ_but_not_in_kind() -> None:
    recalled = NodeToken(Category.KERNEL, PRODUCT, SMALL, "aten::mm", recalled=True)
    assert compare_tokens(recalled, kernel(TENSILE, SMALL)) == TokenAgreement.RENAMED
    assert compare_tokens(recalled, kernel(PRODUCT, LARGE)) == TokenAgreement.RESIZED
    assert compare_tokens(recalled, kernel(ADD, SMALL)) == TokenAgreement.DIFFERENT


def test_rocm_fills_and_copies_with_kernels() -> None:
    fill, copy = NodeToken(Category.FILL, "", b""), NodeToken(Category.COPY, "", b"")
    assert compare_tokens(fill, kernel("__amd_rocclr_fillBufferAligned")) == TokenAgreement.ALIKE
    assert compare_tokens(copy, kernel("__amd_rocclr_copyBuffer")) == TokenAgreement.ALIKE
    assert compare_tokens(fill, kernel("__amd_rocclr_copyBuffer")) == TokenAgreement.DIFFERENT
    assert compare_tokens(fill, NodeToken(Category.FILL, MEMSET, b"")) == TokenAgreement.ALIKE
    assert compare_tokens(of_op("aten::fill_"), NodeToken(Category.FILL, MEMSET, b"")) == TokenAgreement.DIFFERENT


def test_a_geometry_without_shared_memory() -> None:
    assert extract_grid_and_block(b"[8, 1, 1]\0[128,1,1]\0004096") == b"[8,1,1]x[128,1,1]"
    assert extract_grid_and_block(b"[8, 1, 1]\0\0") == b""
