"""Matrix products: 2 m n k FLOPs (a multiplication and an addition); bias, scaling and activation are not counted."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    distinct_bytes,
    dtype_argument,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
    tensor_list,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_SOURCE = "matrix product"


def _product(a: TensorArg, b: TensorArg, extra: float = 0.0, out_dtype: str | None = None) -> OpCost:
    """(..., m, k) @ (..., k, n) with equal batch dimensions; `extra` are the bytes of further inputs."""
    *batch, m, k = a.shape
    *batch_b, k_b, n = b.shape
    if k != k_b or batch != batch_b:
        raise UnmodelledError("inner or batch dimensions differ")
    outputs = math.prod(batch) * m * n
    nbytes = read_bytes(a, b) + extra + out_bytes(outputs, out_dtype or a.dtype)
    return matrix(2.0 * outputs * k, nbytes, a.dtype, _SOURCE)


def _mm(args: Args) -> OpCost:
    return _product(tensor(args, 0, 2), tensor(args, 1, 2))


def _bmm(args: Args) -> OpCost:
    return _product(tensor(args, 0, 3), tensor(args, 1, 3))


def _addmm(args: Args) -> OpCost:
    return _product(tensor(args, 1, 2), tensor(args, 2, 2), distinct_bytes(tensor(args, 0)))


def _baddbmm(args: Args) -> OpCost:
    return _product(tensor(args, 1, 3), tensor(args, 2, 3), distinct_bytes(tensor(args, 0)))


def _addbmm(args: Args) -> OpCost:
    """The batch is summed into one output."""
    a, b, bias = tensor(args, 1, 3), tensor(args, 2, 3), tensor(args, 0)
    flops = 2.0 * a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2]
    return matrix(flops, read_bytes(a, b, bias) + out_bytes(a.shape[1] * b.shape[2], a.dtype), a.dtype, _SOURCE)


def _mv(args: Args) -> OpCost:
    a, b = tensor(args, 0, 2), tensor(args, 1, 1)
    return matrix(2.0 * numel(a), read_bytes(a, b) + out_bytes(a.shape[0], a.dtype), a.dtype, _SOURCE)


def _addmv(args: Args) -> OpCost:
    a, b = tensor(args, 1, 2), tensor(args, 2, 1)
    nbytes = read_bytes(tensor(args, 0), a, b) + out_bytes(a.shape[0], a.dtype)
    return matrix(2.0 * numel(a), nbytes, a.dtype, _SOURCE)


def _dot(args: Args) -> OpCost:
    a, b = tensor(args, 0, 1), tensor(args, 1, 1)
    return vector(2.0 * numel(a), read_bytes(a, b) + out_bytes(1, a.dtype), a.dtype, "dot product")


def _linear(args: Args) -> OpCost:
    """x @ weight.T + bias, where it runs as one op (a fused or pre-packed linear layer)."""
    x, weight = tensor(args, 0), tensor(args, 1, 2)
    rows, outputs = numel(x) // max(x.shape[-1], 1), weight.shape[0]
    nbytes = read_bytes(x, weight, optional_tensor(args, 2)) + out_bytes(rows * outputs, x.dtype)
    return matrix(2.0 * rows * numel(weight), nbytes, x.dtype, _SOURCE)


def _int_mm(args: Args) -> OpCost:
    return _product(tensor(args, 0, 2), tensor(args, 1, 2), out_dtype="int32")


def _scaled_mm(args: Args) -> OpCost:
    """_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, ...)."""
    out_dtype = dtype_argument(args, 6)
    extra = read_bytes(tensor(args, 2), tensor(args, 3), optional_tensor(args, 4))
    return _product(tensor(args, 0, 2), tensor(args, 1, 2), extra, out_dtype)


def _grouped(a: TensorArg, b: TensorArg, offsets: TensorArg | None, extra: float = 0.0) -> OpCost:
    """Products of groups of rows (or columns) that `offsets` splits; how they are split does not change the count.

    2-D a (m, k) with 3-D b (groups, k, n): each row meets one group, 2 m k n. 3-D a with 2-D b (k, n): 2 m k n.
    2-D with 2-D splits k: groups outputs of m x n, 2 m k n. 3-D with 3-D is a batched product.
    """
    if len(a.shape) == 3 and len(b.shape) == 3:
        return _product(a, b, extra)
    if a.shape[-1] != b.shape[-2]:
        raise UnmodelledError("inner dimensions differ")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    groups = offsets.shape[0] if offsets is not None and len(a.shape) == len(b.shape) == 2 else 1
    nbytes = read_bytes(a, b, offsets) + extra + out_bytes(groups * m * n, a.dtype)
    return matrix(2.0 * m * k * n, nbytes, a.dtype, "grouped matrix product")


def _grouped_mm(args: Args) -> OpCost:
    return _grouped(tensor(args, 0), tensor(args, 1), optional_tensor(args, 2))


def _scaled_grouped_mm(args: Args) -> OpCost:
    scales = read_bytes(tensor(args, 2), tensor(args, 3))
    return _grouped(tensor(args, 0), tensor(args, 1), optional_tensor(args, 4), scales)


def _recurrent(x: TensorArg, weights: tuple[TensorArg, ...], passes: int) -> OpCost:
    """A recurrent layer on (time, batch, features): every weight matrix meets every row once per pass."""
    if len(x.shape) != 3:
        raise UnmodelledError("input of a recurrent layer is not (time, batch, features)")
    rows = x.shape[0] * x.shape[1]
    flops = 2.0 * rows * sum(numel(weight) for weight in weights if len(weight.shape) == 2)
    return matrix(passes * flops, math.nan, x.dtype, "recurrent layer")


def _mkldnn_rnn(args: Args) -> OpCost:
    """mkldnn_rnn_layer(input, weight0, weight1, weight2, weight3, ...): one layer in one direction."""
    return _recurrent(tensor(args, 0), (tensor(args, 1), tensor(args, 2)), 1)


def _mkldnn_rnn_backward(args: Args) -> OpCost:
    return _recurrent(tensor(args, 0), (tensor(args, 1), tensor(args, 2)), 2)


def _cudnn_rnn(args: Args) -> OpCost:
    """_cudnn_rnn(input, weight[], weight_stride0, ...): all layers and directions."""
    return _recurrent(tensor(args, 0), tensor_list(args, 1), 1)


FORMULAS: dict[str, Formula] = {
    "aten::mm": _mm,
    "aten::bmm": _bmm,
    "aten::addmm": _addmm,
    "aten::addmm_": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::baddbmm": _baddbmm,
    "aten::baddbmm_": _baddbmm,
    "aten::addbmm": _addbmm,
    "aten::mv": _mv,
    "aten::addmv": _addmv,
    "aten::addmv_": _addmv,
    "aten::dot": _dot,
    "aten::vdot": _dot,
    "aten::_int_mm": _int_mm,
    "aten::_scaled_mm": _scaled_mm,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _scaled_grouped_mm,
    "aten::mkldnn_rnn_layer": _mkldnn_rnn,
    "aten::mkldnn_rnn_layer_backward": _mkldnn_rnn_backward,
    "aten::_cudnn_rnn": _cudnn_rnn,
    "mkldnn::_linear_pointwise": _linear,
    "mkl::_mkl_linear": _linear,
}
