"""What a launch and a kernel say of whether they are one node."""

import pytest

from perfkit.trace.graphs.tokens import Agreement, Token, agreement, grid_and_block
from perfkit.trace.model import Category
from tests.fixtures.graph_captures import ADD, ALL_REDUCE, MEMSET, NCCL, PRODUCT, RMS_NORM, TENSILE

SMALL, LARGE = b"[8,1,1]x[128,1,1]", b"[16,1,1]x[128,1,1]"
TRITON = "triton_poi_fused_mul_silu_4"


def of_op(op: str) -> Token:
    return Token(Category.KERNEL, "", b"", op)


def kernel(name: str, geometry: bytes = b"") -> Token:
    return Token(Category.KERNEL, name, geometry)


@pytest.mark.parametrize(
    ("op", "name", "says"),
    [
        ("aten::mm", PRODUCT, Agreement.ALIKE),
        ("aten::mm", "void splitKreduce_kernel<32, 16, int>", Agreement.UNTOLD),
        ("aten::mm", NCCL, Agreement.DIFFERENT),
        ("aten::mm", ADD, Agreement.DIFFERENT),
        ("aten::mm", TRITON, Agreement.DIFFERENT),
        ("aten::add", ADD, Agreement.ALIKE),
        ("aten::add", PRODUCT, Agreement.DIFFERENT),
        ("_C::rms_norm", RMS_NORM, Agreement.ALIKE),
        ("_C::silu_and_mul", RMS_NORM, Agreement.UNTOLD),
        ("_C_custom_ar::all_reduce", ALL_REDUCE, Agreement.ALIKE),
        ("record_param_comms", NCCL, Agreement.ALIKE),
        (TRITON, TRITON, Agreement.ALIKE),
        (TRITON, "triton_poi_fused_mul_silu_5", Agreement.DIFFERENT),
        ("", PRODUCT, Agreement.UNTOLD),
    ],
)
def test_an_op_tells_the_kind_of_its_kernel(op: str, name: str, says: Agreement) -> None:
    assert agreement(of_op(op), kernel(name)) == says


def test_names_and_grids_say_more_than_the_op() -> None:
    assert agreement(kernel(TENSILE), kernel(TENSILE)) == Agreement.ALIKE
    assert agreement(kernel(TENSILE, SMALL), kernel(TENSILE, SMALL)) == Agreement.SAME
    assert agreement(kernel(TENSILE, SMALL), kernel(TENSILE, LARGE)) == Agreement.RESIZED
    assert agreement(kernel(TENSILE)._replace(op="aten::add"), kernel(PRODUCT)) == Agreement.DIFFERENT


def test_what_an_op_launched_elsewhere_may_differ_but_not_in_kind() -> None:
    recalled = Token(Category.KERNEL, PRODUCT, SMALL, "aten::mm", recalled=True)
    assert agreement(recalled, kernel(TENSILE, SMALL)) == Agreement.RENAMED
    assert agreement(recalled, kernel(PRODUCT, LARGE)) == Agreement.RESIZED
    assert agreement(recalled, kernel(ADD, SMALL)) == Agreement.DIFFERENT


def test_rocm_fills_and_copies_with_kernels() -> None:
    fill, copy = Token(Category.FILL, "", b""), Token(Category.COPY, "", b"")
    assert agreement(fill, kernel("__amd_rocclr_fillBufferAligned")) == Agreement.ALIKE
    assert agreement(copy, kernel("__amd_rocclr_copyBuffer")) == Agreement.ALIKE
    assert agreement(fill, kernel("__amd_rocclr_copyBuffer")) == Agreement.DIFFERENT
    assert agreement(fill, Token(Category.FILL, MEMSET, b"")) == Agreement.ALIKE
    assert agreement(of_op("aten::fill_"), Token(Category.FILL, MEMSET, b"")) == Agreement.DIFFERENT


def test_a_geometry_without_shared_memory() -> None:
    assert grid_and_block(b"[8, 1, 1]\0[128,1,1]\0004096") == b"[8,1,1]x[128,1,1]"
    assert grid_and_block(b"[8, 1, 1]\0\0") == b""
