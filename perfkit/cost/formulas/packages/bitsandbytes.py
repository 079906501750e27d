"""Ops of bitsandbytes: 8-bit and 4-bit blockwise quantization, quantized products, and optimizers.

FLOPs per element: quantised 3 and a comparison for each halving of the code (largest absolute value 2, scale 1), so
that the 256 values of 8 bits take 11; dequantised 1. An update takes 14 with two states (Adam) and 10 with one (Lion:
decay, direction 3, sign, step 2, state 3); in 8 bits each state is dequantised and quantised besides.
"""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_integer,
    get_integers,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.OTHER)

_CONVERSION = "conversion"
_OPTIMIZER = "optimizer"
_SCALE = 4  # bytes of a block's scale, in fp32
_QUANTISED_BY = 3
_TWO_STATES, _ONE_STATE = 14, 10


def _count_quantize_flops(elements: int, code: int) -> float:
    return (_QUANTISED_BY + math.log2(code)) * elements


@OPS.formula("bitsandbytes::quantize_blockwise")
def _cost_quantize_8_bits(args: Args) -> OpCost:
    """quantize_blockwise(A, code, blocksize)."""
    x, code, block = get_tensor(args, 0), get_tensor(args, 1), get_integer(args, 2)
    nbytes = count_read_bytes(x, code) + numel(x) + _SCALE * math.ceil(numel(x) / block)
    return make_vector_cost(_count_quantize_flops(numel(x), numel(code)), nbytes, "fp32", _CONVERSION)


@OPS.formula("bitsandbytes::quantize_4bit")
def _cost_quantize_4_bits(args: Args) -> OpCost:
    """quantize_4bit(A, blocksize, quant_type, quant_storage)."""
    x, block = get_tensor(args, 0), get_integer(args, 1)
    nbytes = count_read_bytes(x) + math.ceil(numel(x) / 2) + _SCALE * math.ceil(numel(x) / block)
    return make_vector_cost(_count_quantize_flops(numel(x), 16), nbytes, "fp32", _CONVERSION)


def _cost_dequantize(args: Args, elements: int, operands: int, dtype_at: int) -> OpCost:
    dtype = get_dtype_argument(args, dtype_at)
    if dtype is None:
        raise UnmodeledError("dtype of the result not recorded")
    nbytes = count_read_bytes(*(get_tensor(args, at) for at in range(operands))) + count_output_bytes(elements, dtype)
    return make_vector_cost(elements, nbytes, "fp32", _CONVERSION)


@OPS.formula("bitsandbytes::dequantize_blockwise")
def _cost_dequantize_8_bits(args: Args) -> OpCost:
    """dequantize_blockwise(A, absmax, code, blocksize, dtype)."""
    return _cost_dequantize(args, numel(get_tensor(args, 0)), 3, 4)


@OPS.formula("bitsandbytes::dequantize_4bit")
def _cost_dequantize_4_bits(args: Args) -> OpCost:
    """dequantize_4bit(A, absmax, blocksize, quant_type, shape, dtype)."""
    return _cost_dequantize(args, math.prod(get_integers(args, 4)), 2, 5)


@OPS.formula("bitsandbytes::gemm_4bit bitsandbytes::gemv_4bit", op_class=OpClass.MATMUL)
def _cost_product(args: Args) -> OpCost:
    """gemm_4bit(A, B, shapeB, absmax, ...), gemv_4bit(A, B, shapeB, absmax, code, ...): A (..., k) times the transpose
    of B, whose shape is (n, k) before it is packed."""
    x, (columns, depth) = get_tensor(args, 0), get_integers(args, 2)
    outputs = numel(x) // depth * columns
    nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(outputs, x.dtype)
    return make_matrix_cost(2.0 * outputs * depth, nbytes, x.dtype, "matrix product")


def _make_update(scales: int | None) -> Formula:
    """optimizer_update_32bit(name, g, p, state1, state2, ...), optimizer_update_8bit_blockwise(as before, ...).

    Parameters and states are read and written, of states in 8 bits also their `scales`, which begin at that argument.
    """

    def formula(args: Args) -> OpCost:
        parameter, second = get_tensor(args, 2), get_optional_tensor(args, 4)
        states = [get_tensor(args, 3)] if second is None else [get_tensor(args, 3), second]
        count = float(_ONE_STATE if second is None else _TWO_STATES)
        written = [parameter, *states]
        if scales is not None:
            count += len(states) * (1 + _count_quantize_flops(1, 256))
            written += [get_tensor(args, scales + place) for place in range(len(states))]
        nbytes = count_read_bytes(*walk_tensors(args)) + sum(
            count_output_bytes(numel(output), output.dtype) for output in written
        )
        return make_vector_cost(count * numel(parameter), nbytes, "fp32", _OPTIMIZER)

    return formula


OPS.add("bitsandbytes::optimizer_update_32bit", _make_update(scales=None), op_class=OpClass.OPTIMIZER)
OPS.add("bitsandbytes::optimizer_update_8bit_blockwise", _make_update(scales=14), op_class=OpClass.OPTIMIZER)
