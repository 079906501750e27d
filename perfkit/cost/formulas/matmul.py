"""Matrix products: 2 m n k FLOPs (a multiplication and an addition); bias, scaling and activation are not counted."""

import math

from perfkit.cost.calls.args import (
    Args,
    UnmodeledError,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_element_size,
    get_integer,
    get_optional_tensor,
    get_tensor,
    get_tensor_list,
    make_matrix_cost,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.calls.output_rules import make_product

OPS = OpFamily(OpClass.MATMUL)

_SOURCE = "matrix product"


def _cost_product(a: TensorArg, b: TensorArg, extra: float = 0.0, out_dtype: str | None = None) -> OpCost:
    """(..., m, k) @ (..., k, n) with equal batch dimensions; `extra` are the bytes of further inputs."""
    *batch, m, k = a.shape
    *batch_b, k_b, n = b.shape
    if k != k_b or batch != batch_b:
        raise UnmodeledError("inner or batch dimensions differ")
    outputs = math.prod(batch) * m * n
    nbytes = count_read_bytes(a, b) + extra + count_output_bytes(outputs, out_dtype or a.dtype)
    return make_matrix_cost(2.0 * outputs * k, nbytes, a.dtype, _SOURCE)


@OPS.formula("mm", outputs=make_product(0))
def _cost_mm(args: Args) -> OpCost:
    return _cost_product(get_tensor(args, 0, 2), get_tensor(args, 1, 2))


@OPS.formula("bmm", outputs=make_product(0))
def _cost_bmm(args: Args) -> OpCost:
    return _cost_product(get_tensor(args, 0, 3), get_tensor(args, 1, 3))


@OPS.formula("addmm", outputs=make_product(1))
@OPS.formula("addmm_")
@OPS.formula("_addmm_activation")
def _cost_addmm(args: Args) -> OpCost:
    return _cost_product(get_tensor(args, 1, 2), get_tensor(args, 2, 2), count_distinct_bytes(get_tensor(args, 0)))


@OPS.formula("baddbmm", outputs=make_product(1))
@OPS.formula("baddbmm_")
def _cost_baddbmm(args: Args) -> OpCost:
    return _cost_product(get_tensor(args, 1, 3), get_tensor(args, 2, 3), count_distinct_bytes(get_tensor(args, 0)))


@OPS.formula("addbmm addbmm_")
def _cost_addbmm(args: Args) -> OpCost:
    """The batch is summed into one output."""
    a, b, bias = get_tensor(args, 1, 3), get_tensor(args, 2, 3), get_tensor(args, 0)
    flops = 2.0 * a.shape[0] * a.shape[1] * a.shape[2] * b.shape[2]
    return make_matrix_cost(
        flops, count_read_bytes(a, b, bias) + count_output_bytes(a.shape[1] * b.shape[2], a.dtype), a.dtype, _SOURCE
    )


@OPS.formula("mv")
def _cost_mv(args: Args) -> OpCost:
    a, b = get_tensor(args, 0, 2), get_tensor(args, 1, 1)
    return make_matrix_cost(
        2.0 * numel(a), count_read_bytes(a, b) + count_output_bytes(a.shape[0], a.dtype), a.dtype, _SOURCE
    )


@OPS.formula("addmv addmv_")
def _cost_addmv(args: Args) -> OpCost:
    a, b = get_tensor(args, 1, 2), get_tensor(args, 2, 1)
    nbytes = count_read_bytes(get_tensor(args, 0), a, b) + count_output_bytes(a.shape[0], a.dtype)
    return make_matrix_cost(2.0 * numel(a), nbytes, a.dtype, _SOURCE)


@OPS.formula("dot vdot", op_class=OpClass.OTHER)
def _cost_dot(args: Args) -> OpCost:
    a, b = get_tensor(args, 0, 1), get_tensor(args, 1, 1)
    return make_vector_cost(
        2.0 * numel(a), count_read_bytes(a, b) + count_output_bytes(1, a.dtype), a.dtype, "dot product"
    )


@OPS.formula("mkldnn_linear mkldnn::_linear_pointwise mkl::_mkl_linear")
def _cost_linear(args: Args) -> OpCost:
    """x @ weight.T + bias, where it runs as one op (a fused or pre-packed linear layer)."""
    x, weight = get_tensor(args, 0), get_tensor(args, 1, 2)
    rows, outputs = numel(x) // max(x.shape[-1], 1), weight.shape[0]
    nbytes = count_read_bytes(x, weight, get_optional_tensor(args, 2)) + count_output_bytes(rows * outputs, x.dtype)
    return make_matrix_cost(2.0 * rows * numel(weight), nbytes, x.dtype, _SOURCE)


@OPS.formula("_int_mm")
def _cost_int_mm(args: Args) -> OpCost:
    return _cost_product(get_tensor(args, 0, 2), get_tensor(args, 1, 2), out_dtype="int32")


@OPS.formula("_scaled_mm")
def _cost_scaled_mm(args: Args) -> OpCost:
    """_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, ...)."""
    out_dtype = get_dtype_argument(args, 6)
    extra = count_read_bytes(get_tensor(args, 2), get_tensor(args, 3), get_optional_tensor(args, 4))
    return _cost_product(get_tensor(args, 0, 2), get_tensor(args, 1, 2), extra, out_dtype)


def _cost_grouped_product(a: TensorArg, b: TensorArg, offsets: TensorArg | None, extra: float = 0.0) -> OpCost:
    """Cost GEMMs of groups of rows (or columns) split by `offsets`; the split does not change the count.

    2-D a (m, k) with 3-D b (groups, k, n): each row meets one group, 2 m k n. 3-D a with 2-D b (k, n): 2 m k n.
    2-D with 2-D splits k: groups outputs of m x n, 2 m k n. 3-D with 3-D is a batched product.
    """
    if len(a.shape) == 3 and len(b.shape) == 3:
        return _cost_product(a, b, extra)
    if a.shape[-1] != b.shape[-2]:
        raise UnmodeledError("inner dimensions differ")
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    groups = offsets.shape[0] if offsets is not None and len(a.shape) == len(b.shape) == 2 else 1
    nbytes = count_read_bytes(a, b, offsets) + extra + count_output_bytes(groups * m * n, a.dtype)
    return make_matrix_cost(2.0 * m * k * n, nbytes, a.dtype, "grouped matrix product")


@OPS.formula("_grouped_mm")
def _cost_grouped_mm(args: Args) -> OpCost:
    return _cost_grouped_product(get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2))


@OPS.formula("_scaled_grouped_mm")
def _cost_scaled_grouped_mm(args: Args) -> OpCost:
    scales = count_read_bytes(get_tensor(args, 2), get_tensor(args, 3))
    return _cost_grouped_product(get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 4), scales)


@OPS.formula("_scaled_mm_v2")
def _cost_scaled_mm_v2(args: Args) -> OpCost:
    """_scaled_mm_v2(a, b, scale_a[], recipe_a, swizzle_a, scale_b[], recipe_b, swizzle_b, bias, out_dtype, ...)."""
    a, b = get_tensor(args, 0, 2), get_tensor(args, 1, 2)
    scales = [scale for at in (2, 5) for scale in get_tensor_list(args, at)]
    extra = sum(numel(scale) * (get_element_size(scale.dtype) if scale.dtype else 4) for scale in scales)
    return _cost_product(a, b, extra + count_read_bytes(get_optional_tensor(args, 8)), get_dtype_argument(args, 9))


def _cost_packed_weight(args: Args, outputs: int) -> OpCost:
    """Cost (..., k) times a packed weight with this many rows: reads every byte of the weight and its scales."""
    x = get_tensor(args, 0)
    rows, k = numel(x) // max(x.shape[-1], 1), x.shape[-1]
    nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(rows * outputs, x.dtype)
    return make_matrix_cost(2.0 * rows * k * outputs, nbytes, x.dtype, "product with packed weights")


@OPS.formula("_weight_int8pack_mm")
def _cost_int8_weight(args: Args) -> OpCost:
    """_weight_int8pack_mm(self, weight (n, k) int8, scales)."""
    return _cost_packed_weight(args, get_tensor(args, 1, 2).shape[0])


@OPS.formula("_weight_int4pack_mm")
def _cost_int4_weight(args: Args) -> OpCost:
    """_weight_int4pack_mm(self, weight, group_size, scales): (n / 8, k / ..., 32, ...) int32 on a GPU."""
    return _cost_packed_weight(args, 8 * get_tensor(args, 1, 4).shape[0])


@OPS.formula("_weight_int4pack_mm_for_cpu")
def _cost_int4_weight_cpu(args: Args) -> OpCost:
    """_weight_int4pack_mm_for_cpu(self, weight (n, k / 2) uint8, group_size, scales)."""
    return _cost_packed_weight(args, get_tensor(args, 1, 2).shape[0])


@OPS.formula("_dyn_quant_matmul_4bit")
def _cost_int4_dynamic(args: Args) -> OpCost:
    """_dyn_quant_matmul_4bit(input, packed_weights, block_size, in_features, out_features)."""
    return _cost_packed_weight(args, get_integer(args, 4))


@OPS.formula("addr addr_", op_class=OpClass.OTHER)
def _cost_outer(args: Args) -> OpCost:
    """addr(self, vec1, vec2): multiply and add for each element."""
    a, b = get_tensor(args, 1, 1), get_tensor(args, 2, 1)
    outputs = a.shape[0] * b.shape[0]
    nbytes = count_read_bytes(get_tensor(args, 0), a, b) + count_output_bytes(outputs, a.dtype)
    return make_vector_cost(2 * outputs, nbytes, a.dtype, "outer product")


@OPS.formula("_foreach_mm", op_class=OpClass.OPTIMIZER)
def _cost_foreach_mm(args: Args) -> OpCost:
    """_foreach_mm(self[], mat2[])."""
    pairs = list(zip(get_tensor_list(args, 0), get_tensor_list(args, 1), strict=True))
    products = [_cost_product(a, b) for a, b in pairs]
    if any(product.flops is None or product.bytes is None for product in products):
        raise UnmodeledError("a product in the list is unknown")
    flops, nbytes = sum(product.flops or 0 for product in products), sum(product.bytes or 0 for product in products)
    return make_matrix_cost(flops, nbytes, pairs[0][0].dtype, _SOURCE)
