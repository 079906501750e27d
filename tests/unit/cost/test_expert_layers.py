"""Layers of experts of vLLM by the ops beneath them, against hand calculations."""

import math
from pathlib import Path

import pytest

from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.cost.calls.op_call import OpCall, TensorArg
from perfkit.cost.expert_layers import cost_expert_layer
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.traces import call, kernel, launch, mark, write_trace


def t(*shape: int, dtype: str = "bf16") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def ints(*shape: int) -> TensorArg:
    return t(*shape, dtype="int32")


# 24 tokens of width 512, each to 4 of 16 experts, which are 320 wide; and one of 640 for all tokens.
LAYER = OpCall("vllm::moe_forward_shared", (t(24, 512), t(24, 16), None))
ALIGN = OpCall("_moe_C::moe_align_block_size", (ints(24, 4), 16, 16, ints(600), ints(64), ints(1), None))
GATE = OpCall("_C::silu_and_mul", (t(96, 320), t(96, 640)))
SHARED = OpCall("_C::silu_and_mul", (t(24, 640), t(24, 1280)))
FLOPS = 24 * 4 * (2 * 512 * 640 + 2 * 320 * 512)


def test_routes_and_activations_tell_the_products() -> None:
    found = cost_expert_layer(LAYER, (ALIGN, SHARED, GATE))
    assert found is not None
    assert (found.flops, found.bytes, found.dtype) == (FLOPS, None, "bf16")
    quantized = OpCall("_C::per_token_group_fp8_quant", (t(24, 512), t(24, 512, dtype="fp8_e4m3"), t(24, 4)))
    eight = cost_expert_layer(LAYER, (quantized, ALIGN, GATE))
    assert eight is not None
    assert (eight.flops, eight.dtype) == (FLOPS, "fp8")


@pytest.mark.parametrize(
    "inside",
    [
        (GATE,),
        (ALIGN, SHARED),
        (ALIGN, GATE, GATE),
        (OpCall(ALIGN.name, (*ALIGN.args[:6], ints(64))), GATE),  # other experts are on other ranks
        (ALIGN, GATE, OpCall("_moe_C::moe_wna16_marlin_gemm", ())),  # which has a cost of its own
    ],
)
def test_what_does_not_tell_them_leaves_them_unknown(inside: tuple[OpCall, ...]) -> None:
    assert cost_expert_layer(LAYER, inside) is None


def test_the_kernels_of_a_layer_have_its_products(tmp_path: Path) -> None:
    bf16, int32 = "c10::BFloat16", "int"
    events = [
        mark("ProfilerStep#1", 0, 400),
        call("vllm::moe_forward", 10, 90, ((24, 512), bf16), ((24, 16), bf16), None),
        call(
            *("_moe_C::moe_align_block_size", 12, 8, ((24, 4), int32), 16, 16),
            *(((600,), int32), ((64,), int32), ((1,), int32)),
        ),
        *(launch(1, 14), kernel("moe_align_block_size_kernel", 1, 110, 5)),
        *(launch(2, 25), kernel("fused_moe_kernel", 2, 120, 60)),
        call("_C::silu_and_mul", 30, 8, ((96, 320), bf16), ((96, 640), bf16)),
        *(launch(3, 32), kernel("act_and_mul_kernel", 3, 180, 5)),
        *(launch(4, 45), kernel("fused_moe_kernel", 4, 190, 30)),
    ]
    trace = analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", events)), None)
    flops = {row.name: row.flops for row in trace.kernels}
    assert flops == {
        "fused_moe_kernel": pytest.approx(FLOPS),
        "act_and_mul_kernel": 6 * 96 * 320,
        "moe_align_block_size_kernel": 0,
    }
