"""Matrix products: 2 m n k FLOPs (a multiplication and an addition); bias, scaling and activation are not counted."""

import math

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    all_tensors,
    distinct_bytes,
    dtype_argument,
    integer,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    size_of,
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


def _scaled_mm_v2(args: Args) -> OpCost:
    """_scaled_mm_v2(a, b, scale_a[], recipe_a, swizzle_a, scale_b[], recipe_b, swizzle_b, bias, out_dtype, ...)."""
    a, b = tensor(args, 0, 2), tensor(args, 1, 2)
    scales = [scale for at in (2, 5) for scale in tensor_list(args, at)]
    extra = sum(numel(scale) * (size_of(scale.dtype) if scale.dtype else 4) for scale in scales)
    return _product(a, b, extra + read_bytes(optional_tensor(args, 8)), dtype_argument(args, 9))


def _packed_weight(args: Args, outputs: int) -> OpCost:
    """(..., k) times a packed weight with so many rows: every byte of the weight and of its scales is read."""
    x = tensor(args, 0)
    rows, k = numel(x) // max(x.shape[-1], 1), x.shape[-1]
    nbytes = read_bytes(*all_tensors(args)) + out_bytes(rows * outputs, x.dtype)
    return matrix(2.0 * rows * k * outputs, nbytes, x.dtype, "product with packed weights")


def _int8_weight(args: Args) -> OpCost:
    """_weight_int8pack_mm(self, weight (n, k) int8, scales)."""
    return _packed_weight(args, tensor(args, 1, 2).shape[0])


def _int4_weight(args: Args) -> OpCost:
    """_weight_int4pack_mm(self, weight, group_size, scales): (n / 8, k / ..., 32, ...) int32 on a GPU."""
    return _packed_weight(args, 8 * tensor(args, 1, 4).shape[0])


def _int4_weight_cpu(args: Args) -> OpCost:
    """_weight_int4pack_mm_for_cpu(self, weight (n, k / 2) uint8, group_size, scales)."""
    return _packed_weight(args, tensor(args, 1, 2).shape[0])


def _int4_dynamic(args: Args) -> OpCost:
    """_dyn_quant_matmul_4bit(input, packed_weights, block_size, in_features, out_features)."""
    return _packed_weight(args, integer(args, 4))


def _outer(args: Args) -> OpCost:
    """addr(self, vec1, vec2): multiply and add for each element."""
    a, b = tensor(args, 1, 1), tensor(args, 2, 1)
    outputs = a.shape[0] * b.shape[0]
    nbytes = read_bytes(tensor(args, 0), a, b) + out_bytes(outputs, a.dtype)
    return vector(2 * outputs, nbytes, a.dtype, "outer product")


def _foreach_mm(args: Args) -> OpCost:
    """_foreach_mm(self[], mat2[])."""
    pairs = list(zip(tensor_list(args, 0), tensor_list(args, 1), strict=True))
    products = [_product(a, b) for a, b in pairs]
    if any(product.flops is None or product.bytes is None for product in products):
        raise UnmodelledError("a product of the list is unknown")
    flops, nbytes = sum(product.flops or 0 for product in products), sum(product.bytes or 0 for product in products)
    return matrix(flops, nbytes, pairs[0][0].dtype, _SOURCE)


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
    "aten::_scaled_mm_v2": _scaled_mm_v2,
    "aten::_weight_int8pack_mm": _int8_weight,
    "aten::_weight_int4pack_mm": _int4_weight,
    "aten::_weight_int4pack_mm_for_cpu": _int4_weight_cpu,
    "aten::_dyn_quant_matmul_4bit": _int4_dynamic,
    "aten::addr": _outer,
    "aten::addr_": _outer,
    "aten::addbmm_": _addbmm,
    "aten::_foreach_mm": _foreach_mm,
    "aten::mkldnn_linear": _linear,
    "aten::_grouped_mm": _grouped_mm,
    "aten::_scaled_grouped_mm": _scaled_grouped_mm,
    "mkldnn::_linear_pointwise": _linear,
    "mkl::_mkl_linear": _linear,
}
