"""What torch computes products of fp32 operands in, by the kind of op."""

import pytest
import torch
from torch import nn

from perfkit.cost.formula_table import OPS
from perfkit.cost.kernels.fp32_products import group_by_compute_dtype, resolve_compute_dtype
from perfkit.cost.live_flops import count_flops
from perfkit.devices.ceilings.peak import Fp32Settings

DEFAULT = Fp32Settings("ieee", "tf32", "tf32", has_tf32=True)
FLIPPED = Fp32Settings("tf32", "ieee", "ieee", has_tf32=True)


@pytest.mark.parametrize(
    ("op", "default", "flipped"),
    [
        ("aten::mm", "fp32", "tf32"),
        ("aten::addmm", "fp32", "tf32"),
        ("aten::convolution", "tf32", "fp32"),
        ("aten::convolution_backward", "tf32", "fp32"),
        ("aten::cudnn_convolution", "tf32", "fp32"),
        ("aten::_cudnn_rnn", "tf32", "fp32"),
        ("aten::_cudnn_rnn_backward", "tf32", "fp32"),
        ("aten::_slow_conv2d_forward", "fp32", "tf32"),  # unfolds and calls cuBLAS
        ("aten::_scaled_dot_product_efficient_attention", "3xtf32", "3xtf32"),
        ("aten::_efficient_attention_backward", "3xtf32", "3xtf32"),
        ("xformers::efficient_attention_forward_cutlass", "3xtf32", "3xtf32"),
    ],
)
def test_each_op_follows_its_own_setting(op: str, default: str, flipped: str) -> None:
    assert op in OPS
    assert resolve_compute_dtype(op, "fp32", DEFAULT) == default
    assert resolve_compute_dtype(op, "fp32", FLIPPED) == flipped
    assert resolve_compute_dtype(op, "bf16", DEFAULT) == "bf16"
    assert resolve_compute_dtype(op, "fp32", None) == "fp32"


def test_without_units_for_tf32_attention_is_fp32() -> None:
    turing = Fp32Settings("ieee", "ieee", "ieee")
    assert resolve_compute_dtype("aten::_scaled_dot_product_efficient_attention", "fp32", turing) == "fp32"


def test_a_resnet_is_tf32_but_for_its_last_layer() -> None:
    flops = {
        ("aten::convolution", "fp32"): 90.0,
        ("aten::convolution_backward", "fp32"): 180.0,
        ("aten::addmm", "fp32"): 2.0,
        ("aten::mm", "fp32"): 4.0,
        ("aten::mm", "bf16"): 1.0,
    }
    assert group_by_compute_dtype(flops, DEFAULT) == {"tf32": 270.0, "fp32": 6.0, "bf16": 1.0}
    assert group_by_compute_dtype(flops, None) == {"fp32": 276.0, "bf16": 1.0}


def test_a_live_count_is_split_by_what_each_op_is_computed_in() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 8))
    count = count_flops(lambda: model(torch.ones(2, 3, 8, 8)))
    convolution, product = 2.0 * 2 * 36 * 4 * 3 * 9, 2.0 * 2 * 144 * 8
    assert group_by_compute_dtype(count.matrix_by_operands, DEFAULT) == {"tf32": convolution, "fp32": product}
    assert group_by_compute_dtype(count.matrix_by_operands, FLIPPED) == {"fp32": convolution, "tf32": product}
    assert group_by_compute_dtype(count.matrix_by_operands, None) == {"fp32": count.matrix}
