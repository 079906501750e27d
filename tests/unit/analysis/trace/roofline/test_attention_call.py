"""Sizes of attention by the layouts of its ops, and whose kernel it is."""

import pytest

from perfkit.analysis.trace.roofline.attention_call import AttentionSizes, identify_backend, parse_attention
from perfkit.cost.calls.op_call import TensorArg

BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH = 2, 16, 4, 559, 700, 64


def tensor(*shape: int) -> TensorArg:
    return TensorArg(shape, (1,) * len(shape), "bf16")


HEADS_FIRST = (tensor(BATCH, HEADS, QUERIES, WIDTH), *(tensor(BATCH, KEY_HEADS, KEYS, WIDTH),) * 2)
POSITIONS_FIRST = (tensor(BATCH, QUERIES, HEADS, WIDTH), *(tensor(BATCH, KEYS, KEY_HEADS, WIDTH),) * 2)
PACKED = (tensor(1000, HEADS, WIDTH), *(tensor(1200, KEY_HEADS, WIDTH),) * 2)
OF = AttentionSizes(BATCH, HEADS, KEY_HEADS, QUERIES, KEYS, WIDTH, backward=False, has_mask_tensor=False)


@pytest.mark.parametrize(
    ("name", "args", "found"),
    [
        ("aten::_scaled_dot_product_flash_attention", HEADS_FIRST, OF),
        ("aten::_flash_attention_forward", (*POSITIONS_FIRST, None, None, 559, 700), OF),
        ("flash_attn::_flash_attn_forward", POSITIONS_FIRST, OF),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            (HEADS_FIRST[0], *HEADS_FIRST),
            OF._replace(backward=True),
        ),
        (
            "aten::_scaled_dot_product_efficient_attention",
            (*HEADS_FIRST, tensor(1, 1, QUERIES, KEYS), True),
            OF._replace(has_mask_tensor=True),
        ),
        (
            "flash_attn::_flash_attn_varlen_forward",
            PACKED,
            AttentionSizes(None, HEADS, KEY_HEADS, 1000, 1200, WIDTH, False, False),
        ),
        ("aten::_scaled_dot_product_flash_attention", HEADS_FIRST[:2], None),
        ("vllm::unified_attention", (tensor(8, 1024), tensor(8, 1024), tensor(8, 1024)), None),
    ],
)
def test_sizes(name: str, args: tuple[TensorArg, ...], found: AttentionSizes | None) -> None:
    assert parse_attention(name, args) == found


@pytest.mark.parametrize(
    ("name", "kernel", "whose"),
    [
        ("aten::_scaled_dot_product_flash_attention", "void pytorch_flash::flash_fwd_kernel<64>", "FlashAttention-2"),
        ("flash_attn_3::fwd", "void cutlass::device_kernel<flash::FlashAttnFwdSm90<64>>", "FlashAttention-3"),
        ("aten::_efficient_attention_forward", "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", "memory-efficient"),
        ("aten::_scaled_dot_product_cudnn_attention", "cudnn_generated_fort_native_sdpa_sm90_flash_fprop", "cuDNN"),
        ("aten::_scaled_dot_product_flash_attention", "attn_fwd", "Triton"),
        ("aten::_scaled_dot_product_flash_attention", "void ck_tile::kentry<256, FmhaFwdKernel>", "Composable Kernel"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "", "torch (CPU)"),
        ("aten::_scaled_dot_product_flash_attention", "some_kernel", ""),
    ],
)
def test_whose_kernel(name: str, kernel: str, whose: str) -> None:
    assert identify_backend(name, kernel) == whose
