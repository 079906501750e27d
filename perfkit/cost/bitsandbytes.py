"""Ops of bitsandbytes: values in 8 and 4 bits with a scale a block, products with them, and its optimizers.

FLOPs per element: quantised 3 and a comparison for each halving of the code (largest absolute value 2, scale 1), so
that the 256 values of 8 bits take 11; dequantised 1. An update takes 14 with two states (Adam) and 10 with one (Lion:
decay, direction 3, sign, step 2, state 3); in 8 bits each state is dequantised and quantised besides.
"""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    all_tensors,
    dtype_argument,
    integer,
    integers,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost

_CONVERSION = "conversion"
_OPTIMIZER = "optimizer"
_SCALE = 4  # bytes of a block's scale, in fp32
_QUANTISED_BY = 3
_TWO_STATES, _ONE_STATE = 14, 10


def _quantised(elements: int, code: int) -> float:
    return (_QUANTISED_BY + math.log2(code)) * elements


def _quantise_8_bits(args: Args) -> OpCost:
    """quantize_blockwise(A, code, blocksize)."""
    x, code, block = tensor(args, 0), tensor(args, 1), integer(args, 2)
    nbytes = read_bytes(x, code) + numel(x) + _SCALE * math.ceil(numel(x) / block)
    return vector(_quantised(numel(x), numel(code)), nbytes, "fp32", _CONVERSION)


def _quantise_4_bits(args: Args) -> OpCost:
    """quantize_4bit(A, blocksize, quant_type, quant_storage)."""
    x, block = tensor(args, 0), integer(args, 1)
    nbytes = read_bytes(x) + math.ceil(numel(x) / 2) + _SCALE * math.ceil(numel(x) / block)
    return vector(_quantised(numel(x), 16), nbytes, "fp32", _CONVERSION)


def _dequantised(args: Args, elements: int, operands: int, dtype_at: int) -> OpCost:
    dtype = dtype_argument(args, dtype_at)
    if dtype is None:
        raise UnmodelledError("the dtype of the result was not recorded")
    nbytes = read_bytes(*(tensor(args, at) for at in range(operands))) + out_bytes(elements, dtype)
    return vector(elements, nbytes, "fp32", _CONVERSION)


def _dequantise_8_bits(args: Args) -> OpCost:
    """dequantize_blockwise(A, absmax, code, blocksize, dtype)."""
    return _dequantised(args, numel(tensor(args, 0)), 3, 4)


def _dequantise_4_bits(args: Args) -> OpCost:
    """dequantize_4bit(A, absmax, blocksize, quant_type, shape, dtype)."""
    return _dequantised(args, math.prod(integers(args, 4)), 2, 5)


def _product(args: Args) -> OpCost:
    """gemm_4bit(A, B, shapeB, absmax, ...), gemv_4bit(A, B, shapeB, absmax, code, ...): A (..., k) times the transpose
    of B, whose shape is (n, k) before it is packed."""
    x, (columns, depth) = tensor(args, 0), integers(args, 2)
    outputs = numel(x) // depth * columns
    nbytes = read_bytes(*all_tensors(args)) + out_bytes(outputs, x.dtype)
    return matrix(2.0 * outputs * depth, nbytes, x.dtype, "matrix product")


def _update(scales: int | None) -> Formula:
    """optimizer_update_32bit(name, g, p, state1, state2, ...), optimizer_update_8bit_blockwise(as before, ...).

    Parameters and states are read and written, of states in 8 bits also their `scales`, which begin at that argument.
    """

    def formula(args: Args) -> OpCost:
        parameter, second = tensor(args, 2), optional_tensor(args, 4)
        states = [tensor(args, 3)] if second is None else [tensor(args, 3), second]
        count = float(_ONE_STATE if second is None else _TWO_STATES)
        written = [parameter, *states]
        if scales is not None:
            count += len(states) * (1 + _quantised(1, 256))
            written += [tensor(args, scales + place) for place in range(len(states))]
        nbytes = read_bytes(*all_tensors(args)) + sum(out_bytes(numel(each), each.dtype) for each in written)
        return vector(count * numel(parameter), nbytes, "fp32", _OPTIMIZER)

    return formula


FORMULAS: dict[str, Formula] = {
    "bitsandbytes::quantize_blockwise": _quantise_8_bits,
    "bitsandbytes::quantize_4bit": _quantise_4_bits,
    "bitsandbytes::dequantize_blockwise": _dequantise_8_bits,
    "bitsandbytes::dequantize_4bit": _dequantise_4_bits,
    "bitsandbytes::gemm_4bit": _product,
    "bitsandbytes::gemv_4bit": _product,
    "bitsandbytes::optimizer_update_32bit": _update(scales=None),
    "bitsandbytes::optimizer_update_8bit_blockwise": _update(scales=14),
}
