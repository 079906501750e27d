"""Ops of FBGEMM and torchvision. FLOPs as in the families of torch's own ops."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_distinct_bytes,
    count_output_bytes,
    count_read_bytes,
    get_integer,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import Flops, OpFamily

OPS = OpFamily(OpClass.OTHER)

_ROW_SCALE = 8  # bytes of scale and bias that FBGEMM appends to a quantised row
_CONVERSION = "conversion"
# The gradient of a permutation is the inverse one; this node launches the kernel itself.
_PERMUTED_GRADIENT = (
    "torch::autograd::CppNode<fbgemm_gpu::PermutePooledEmbsFunction<&fbgemm_gpu::permute_pooled_embs_gpu> >"
)
_TABLES = ("sgd", "adam", "adagrad", "rowwise_adagrad", "partial_rowwise_adam", "lamb", "lars_sgd", "none")


@OPS.formula("fbgemm::FloatToFP8RowwiseQuantized")
def _cost_to_fp8_rows(args: Args) -> OpCost:
    """FloatToFP8RowwiseQuantized(input): maximum of absolute values (2), scale, round; a row gets its scale."""
    x = get_tensor(args, 0)
    rows = numel(x) // max(x.shape[-1], 1)
    return make_vector_cost(4 * numel(x), count_read_bytes(x) + numel(x) + _ROW_SCALE * rows, x.dtype, _CONVERSION)


@OPS.formula("fbgemm::FP8RowwiseQuantizedToFloat")
def _cost_from_fp8_rows(args: Args) -> OpCost:
    """FP8RowwiseQuantizedToFloat(input): one product for each element of fp32."""
    x = get_tensor(args, 0)
    rows = numel(x) // max(x.shape[-1], 1)
    outputs = numel(x) - _ROW_SCALE * rows
    return make_vector_cost(outputs, count_read_bytes(x) + 4 * outputs, "fp32", _CONVERSION)


def _make_conversion(count: int, out_size: int) -> Formula:
    """Element by element into `out_size` bytes."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        return make_vector_cost(count * numel(x), count_read_bytes(x) + out_size * numel(x), "fp32", _CONVERSION)

    return formula


def _make_rearrangement(*positions: int) -> Formula:
    """These tensors are read and as much is written, in another order."""

    def formula(args: Args) -> OpCost:
        tensors = [moved for moved in (get_optional_tensor(args, at) for at in positions) if moved is not None]
        nbytes = count_read_bytes(*tensors) + sum(count_output_bytes(numel(moved), moved.dtype) for moved in tensors)
        return make_vector_cost(0, nbytes, get_tensor(args, positions[0]).dtype, "data movement")

    return formula


def _make_read_only(*positions: int) -> Formula:
    def formula(args: Args) -> OpCost:
        nbytes = count_read_bytes(*(get_tensor(args, at) for at in positions))
        return make_vector_cost(0, nbytes, get_tensor(args, positions[0]).dtype, "data movement")

    return formula


@OPS.formula(
    " ".join(f"fbgemm::split_embedding_codegen_lookup_{name}_function" for name in _TABLES), op_class=OpClass.INDEX
)
def _cost_table_lookup(args: Args) -> OpCost:
    """split_embedding_codegen_lookup_*(host_weights, dev_weights, uvm_weights, cache, placements, weights_offsets,
    D_offsets, total_D, max_D, ..., indices (11), offsets (12), pooling_mode, indice_weights (14), ..., state (20),
    ...): pooled rows of several tables, added (and multiplied, if weighted) in fp32.

    Rows are as wide as the tables' average, exactly so where each table gets as many indices or all are as wide.
    """
    weights, offsets_of_d = get_tensor(args, 1), get_tensor(args, 6)
    indices, offsets, scales = get_tensor(args, 11), get_tensor(args, 12), get_optional_tensor(args, 14)
    tables = max(offsets_of_d.shape[0] - 1, 1)
    total = args[7] if len(args) > 7 and isinstance(args[7], int) else tables * _compute_row_width(args)
    gathered = numel(indices) * total / tables
    batch = (offsets.shape[0] - 1) // tables
    nbytes = min(count_output_bytes(gathered, weights.dtype), count_distinct_bytes(weights)) + count_read_bytes(
        indices, offsets, scales
    )
    flops = gathered * (2 if scales is not None else 1)
    return make_vector_cost(flops, nbytes + 4 * batch * total, "fp32", "embedding tables")


def _compute_row_width(args: Args) -> int:
    """The width of all rows, from a state with one element a row (row-wise Adagrad), where scalars were not recorded.

    Tables of several widths do not divide, but by a chance of one to the number of rows.
    """
    elements, rows = numel(get_tensor(args, 1)), numel(get_tensor(args, 20))
    if not rows or elements % rows or any(numel(get_tensor(args, at)) for at in (0, 2)):
        raise UnmodeledError("rows of unknown width")
    return elements // rows


@OPS.formula("torchvision::roi_align")
def _cost_roi_align(args: Args) -> OpCost:
    """roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned): each output is the
    mean of sampling_ratio^2 bilinear samples (7 each)."""
    x, rois = get_tensor(args, 0, 4), get_tensor(args, 1, 2)
    outputs = rois.shape[0] * x.shape[1] * get_integer(args, 3) * get_integer(args, 4)
    samples = get_integer(args, 5) ** 2
    nbytes = min(
        count_output_bytes(4 * max(samples, 1) * outputs, x.dtype), count_distinct_bytes(x)
    ) + count_read_bytes(rois)
    known = make_vector_cost(
        8 * samples * outputs, nbytes + count_output_bytes(outputs, x.dtype), x.dtype, "resampling"
    )
    return known if samples else known._replace(flops=None)  # 0: as many samples as the region has pixels


@OPS.formula("torchvision::deform_conv2d", op_class=OpClass.CONVOLUTION)
def _cost_deformable_convolution(args: Args) -> OpCost:
    """deform_conv2d(input, weight, offset, mask, bias, ...): a convolution at the positions of the offsets."""
    x, weight, offset = get_tensor(args, 0, 4), get_tensor(args, 1, 4), get_tensor(args, 2, 4)
    positions = x.shape[0] * math.prod(offset.shape[2:])
    nbytes = count_read_bytes(x, weight, offset, get_optional_tensor(args, 3), get_optional_tensor(args, 4))
    nbytes += count_output_bytes(positions * weight.shape[0], x.dtype)
    return make_matrix_cost(2.0 * positions * numel(weight), nbytes, x.dtype, "convolution")


OPS.add("fbgemm::FloatToHFP8Quantized", _make_conversion(3, 1))  # clamp on both sides, round
OPS.add("fbgemm::HFP8QuantizedToFloat", _make_conversion(1, 4))
OPS.add("fbgemm::FloatToBfloat16Quantized", _make_conversion(0, 2), flops=Flops.NONE)
OPS.add("fbgemm::Bfloat16QuantizedToFloat", _make_conversion(0, 4), flops=Flops.NONE)
OPS.add(
    "fbgemm::asynchronous_complete_cumsum fbgemm::asynchronous_exclusive_cumsum"
    " fbgemm::asynchronous_inclusive_cumsum fbgemm::permute_pooled_embs fbgemm::permute_pooled_embs_auto_grad",
    _make_rearrangement(0),
    flops=Flops.NONE,
)
OPS.add(
    "fbgemm::permute_2D_sparse_data fbgemm::permute_1D_sparse_data fbgemm::permute_sparse_features",
    _make_rearrangement(1, 2, 3),
    flops=Flops.NONE,
)
OPS.add("fbgemm::bounds_check_indices", _make_read_only(1, 2), flops=Flops.NONE)
OPS[_PERMUTED_GRADIENT] = OPS["fbgemm::permute_pooled_embs"]
