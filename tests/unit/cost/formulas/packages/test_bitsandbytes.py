"""Ops of bitsandbytes, by hand and against what they read and write."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from perfkit.cost.calls.op_call import ComputeUnit, OpCall, OpCost, TensorArg
from perfkit.cost.formula_table import cost_op
from tests.fixtures.op_calls import Calls


def t(*shape: int, dtype: str = "fp32") -> TensorArg:
    return TensorArg(shape, tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape))), dtype)


def cost(name: str, *args: object) -> OpCost:
    found = cost_op(OpCall(f"bitsandbytes::{name}", args))  # type: ignore[arg-type]
    assert found is not None
    return found


CODE = t(256)


def test_values_in_8_bits_are_found_among_256() -> None:
    found = cost("quantize_blockwise", t(10, 100), CODE, 256)
    assert found.flops == 1000 * (3 + 8)
    assert found.bytes == 4 * 1000 + 4 * 256 + 1000 + 4 * 4  # four blocks, the last of them of 232


def test_values_in_4_bits_are_found_among_16() -> None:
    found = cost("quantize_4bit", t(10, 100, dtype="bf16"), 64, "nf4", 0)
    assert found.flops == 1000 * (3 + 4)
    assert found.bytes == 2 * 1000 + 500 + 4 * 16


def test_a_value_is_looked_up_and_scaled() -> None:
    bf16, fp32 = 15, 6  # c10's codes
    eight = cost("dequantize_blockwise", t(1000, dtype="uint8"), t(4), CODE, 256, bf16)
    assert (eight.flops, eight.bytes) == (1000, 1000 + 4 * 4 + 4 * 256 + 2 * 1000)
    four = cost("dequantize_4bit", t(500, 1, dtype="uint8"), t(16), 64, "nf4", (10, 100), fp32)
    assert (four.flops, four.bytes) == (1000, 500 + 4 * 16 + 4 * 1000)


def test_a_dtype_that_was_not_recorded_leaves_the_bytes_unknown() -> None:
    assert cost_op(OpCall("bitsandbytes::dequantize_blockwise", (t(9, dtype="uint8"), t(1), CODE, 256, None))) is None


def test_a_product_has_the_flops_of_the_matrix_that_was_packed() -> None:
    found = cost("gemm_4bit", t(2, 3, 100), t(500, 1, dtype="uint8"), (10, 100), t(16), 64, "nf4")
    assert (found.unit, found.dtype) == (ComputeUnit.MATRIX, "fp32")
    assert found.flops == 2 * 6 * 10 * 100
    assert found.bytes == 4 * 600 + 500 + 4 * 16 + 4 * 60


@pytest.mark.parametrize(("states", "flops"), [(2, 14), (1, 10)])
def test_an_update_reads_and_writes_parameters_and_states(states: int, flops: int) -> None:
    second = t(10) if states == 2 else None
    found = cost("optimizer_update_32bit", None, t(10), t(10), t(10), second, None)
    assert found.flops == flops * 10
    assert found.bytes == 4 * 10 * (2 + states) + 4 * 10 * (1 + states)


@pytest.mark.parametrize(("states", "flops"), [(2, 14), (1, 10)])
def test_states_in_8_bits_are_dequantised_and_quantised(states: int, flops: int) -> None:
    state = t(512, dtype="uint8")
    second = (state, CODE, t(2)) if states == 2 else (None, None, None)
    given = (None, t(512), t(512), state, second[0], *[0.9] * 5, 1, 0.1, CODE, second[1], t(2), second[2], 0.0, 1.0)
    found = cost("optimizer_update_8bit_blockwise", *given)
    assert found.flops == 512 * (flops + states * 12)
    assert found.bytes == 2 * 4 * 512 + states * (512 + 4 * 256 + 8) + 4 * 512 + states * (512 + 8)


def _quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    code = torch.linspace(-1, 1, 256)
    return (*torch.ops.bitsandbytes.quantize_blockwise(x, code, 256), code)


REAL: dict[str, Callable[[torch.Tensor], Any]] = {
    "quantize_blockwise": _quantised,
    "dequantize_blockwise": lambda x: torch.ops.bitsandbytes.dequantize_blockwise(*_quantised(x), 256, torch.float32),
    "quantize_4bit": lambda x: torch.ops.bitsandbytes.quantize_4bit(x, 64, "nf4", torch.uint8),
    "dequantize_4bit": lambda x: torch.ops.bitsandbytes.dequantize_4bit(
        *torch.ops.bitsandbytes.quantize_4bit(x, 64, "nf4", torch.uint8), 64, "nf4", list(x.shape), torch.bfloat16
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_bytes_are_those_of_arguments_and_results(name: str) -> None:
    pytest.importorskip("bitsandbytes")
    with Calls() as calls:
        REAL[name](torch.randn(16, 100))
    found, moved = calls.seen[f"bitsandbytes::{name}"]
    assert found is not None
    assert found.bytes == moved
