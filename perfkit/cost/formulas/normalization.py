"""Normalization layers: FLOPs per input element, by the steps of the textbook formula.

Forward, 8: mean (1), variance (subtract, square, add: 3), normalise (subtract, multiply: 2), scale and shift (2).
Without a mean (RMS norm), 4: square, add, multiply, scale. Backward, 14: rebuild the normalised input (2), two sums
with their products (4), combine to the input's gradient (5), gradients of scale and shift (3). RMS norm backward, 9:
rebuild (1), one sum with its products (3), combine (3), gradient of the scale (2). A gradient that is not asked for
(`output_mask`) costs nothing; a mask that a trace lost asks for all. Batch norm in evaluation, 4 forward;
with sums given (synchronised batch norm), 7 backward.
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    count_output_bytes,
    count_read_bytes,
    get_optional_tensor,
    get_tensor,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.calls.output_rules import make_like

OPS = OpFamily(OpClass.NORM)

_SOURCE = "normalisation"
_FORWARD, _RMS_FORWARD, _EVALUATION = 8, 4, 4
# Backward: to rebuild the normalised input, for the gradient of the input, for those of scale and shift.
_BACKWARD, _RMS_BACKWARD = (2, 9, 3), (1, 6, 2)


def _get_statistics_dtype(dtype: str) -> str:
    """Statistics of half-precision inputs are kept in single precision."""
    return "fp32" if dtype in ("bf16", "fp16") else dtype


@OPS.formula("native_layer_norm", outputs=make_like(0))
def _cost_layer_norm(args: Args) -> OpCost:
    """native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd."""
    x, weight, bias = get_tensor(args, 0), get_optional_tensor(args, 2), get_optional_tensor(args, 3)
    shape = args[1]
    normalised_dims = len(shape) if isinstance(shape, tuple) else 1
    rows = 1
    for size in x.shape[: len(x.shape) - normalised_dims]:
        rows *= size
    outputs = count_output_bytes(numel(x), x.dtype) + count_output_bytes(2 * rows, _get_statistics_dtype(x.dtype))
    return make_vector_cost(_FORWARD * numel(x), count_read_bytes(x, weight, bias) + outputs, x.dtype, _SOURCE)


def _read_output_mask(args: Args, mask_at: int | None) -> tuple[bool, bool, bool]:
    """The requested gradients: of the input, the scale, the shift."""
    mask = args[mask_at] if mask_at is not None and mask_at < len(args) else None
    if not isinstance(mask, tuple) or len(mask) < 2:
        return True, True, True
    return mask[0] is not False, mask[1] is not False, mask[-1] is not False


def _count_backward_flops(counts: tuple[int, int, int], asked: tuple[bool, bool, bool]) -> int:
    rebuild, of_input, of_parameters = counts
    return rebuild + (of_input if asked[0] else 0) + (of_parameters if asked[1] or asked[2] else 0)


@OPS.formula("native_layer_norm_backward", outputs=make_like(1, 5, 6))
def _cost_layer_norm_backward(args: Args) -> OpCost:
    """native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)."""
    grad, x, mean, rstd = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 3), get_tensor(args, 4)
    weight, bias = get_optional_tensor(args, 5), get_optional_tensor(args, 6)
    asked = _read_output_mask(args, 7)
    inputs = count_read_bytes(grad, x, mean, rstd, weight if asked[0] else None)
    outputs = count_read_bytes(weight if asked[1] else None, bias if asked[2] else None)
    outputs += count_output_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return make_vector_cost(_count_backward_flops(_BACKWARD, asked) * numel(x), inputs + outputs, x.dtype, _SOURCE)


@OPS.formula("_fused_rms_norm")
def _cost_rms_norm(args: Args) -> OpCost:
    """_fused_rms_norm(input, normalized_shape, weight, eps) -> output, rstd."""
    x, weight = get_tensor(args, 0), get_optional_tensor(args, 2)
    rows = numel(x) // max(x.shape[-1], 1)
    outputs = count_output_bytes(numel(x), x.dtype) + count_output_bytes(rows, _get_statistics_dtype(x.dtype))
    return make_vector_cost(_RMS_FORWARD * numel(x), count_read_bytes(x, weight) + outputs, x.dtype, _SOURCE)


@OPS.formula("_fused_rms_norm_backward")
def _cost_rms_norm_backward(args: Args) -> OpCost:
    """_fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask)."""
    grad, x, rstd, weight = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 3), get_optional_tensor(args, 4)
    asked = _read_output_mask(args, 5)
    nbytes = count_read_bytes(grad, x, rstd, weight if asked[0] else None, weight if asked[1] else None)
    nbytes += count_output_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return make_vector_cost(_count_backward_flops(_RMS_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)


def _make_batch_norm(training_at: int | None) -> Formula:
    """batch norms(input, weight, bias, running_mean, running_var, training, ...): statistics per channel."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        parameters = count_read_bytes(*(get_optional_tensor(args, index) for index in (1, 2)))
        running = count_read_bytes(*(get_optional_tensor(args, index) for index in (3, 4)))
        training = training_at is None or (training_at < len(args) and args[training_at] is True)
        channels = x.shape[1] if len(x.shape) > 1 else 1
        statistics = count_output_bytes(2 * channels, _get_statistics_dtype(x.dtype)) + running if training else 0.0
        nbytes = count_read_bytes(x) + parameters + running + count_output_bytes(numel(x), x.dtype) + statistics
        return make_vector_cost((_FORWARD if training else _EVALUATION) * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _make_batch_norm_backward(grad_at: int, x_at: int, mask_at: int | None = None) -> Formula:
    """Backward of a batch norm; gradients of input, weight and bias."""

    def formula(args: Args) -> OpCost:
        grad, x, weight = get_tensor(args, grad_at), get_tensor(args, x_at), get_optional_tensor(args, 2)
        channels = x.shape[1] if len(x.shape) > 1 else 1
        statistics = count_output_bytes(2 * channels, _get_statistics_dtype(x.dtype))
        asked = _read_output_mask(args, mask_at)
        nbytes = count_read_bytes(grad, x, weight if asked[0] else None) + statistics
        nbytes += (count_output_bytes(numel(x), x.dtype) if asked[0] else 0.0) + (
            asked[1] + asked[2]
        ) * count_read_bytes(weight)
        return make_vector_cost(_count_backward_flops(_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


@OPS.formula("native_group_norm", outputs=make_like(0))
def _cost_group_norm(args: Args) -> OpCost:
    """native_group_norm(input, weight, bias, N, C, HxW, groups, eps) -> output, mean, rstd."""
    x, batch, groups = get_tensor(args, 0), args[3], args[6]
    rows = batch * groups if isinstance(batch, int) and isinstance(groups, int) else 0
    outputs = count_output_bytes(numel(x), x.dtype) + count_output_bytes(2 * rows, _get_statistics_dtype(x.dtype))
    inputs = count_read_bytes(x, get_optional_tensor(args, 1), get_optional_tensor(args, 2))
    return make_vector_cost(_FORWARD * numel(x), inputs + outputs, x.dtype, _SOURCE)


@OPS.formula("native_group_norm_backward")
def _cost_group_norm_backward(args: Args) -> OpCost:
    """native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, groups, output_mask)."""
    grad, x, mean, rstd, weight = (*(get_tensor(args, index) for index in range(4)), get_optional_tensor(args, 4))
    asked = _read_output_mask(args, 9)
    nbytes = count_read_bytes(grad, x, mean, rstd, weight if asked[0] else None) + (
        asked[1] + asked[2]
    ) * count_read_bytes(weight)
    nbytes += count_output_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return make_vector_cost(_count_backward_flops(_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("_native_batch_norm_legit_no_training _batch_norm_no_update")
def _cost_evaluation(args: Args) -> OpCost:
    """_native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, ...)."""
    x = get_tensor(args, 0)
    nbytes = count_read_bytes(x, *(get_optional_tensor(args, index) for index in range(1, 5))) + count_output_bytes(
        numel(x), x.dtype
    )
    return make_vector_cost(_EVALUATION * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("batch_norm_stats batch_norm_update_stats")
def _cost_statistics(args: Args) -> OpCost:
    """batch_norm_stats(input, eps) -> mean, invstd of each channel: a variance is 4."""
    x = get_tensor(args, 0)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    nbytes = count_read_bytes(x) + count_output_bytes(2 * channels, _get_statistics_dtype(x.dtype))
    return make_vector_cost(4 * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("batch_norm_gather_stats batch_norm_gather_stats_with_counts")
def _cost_gathered_statistics(args: Args) -> OpCost:
    """Cost batch_norm_gather_stats(input, mean, invstd, ...): reduces statistics (rank, channel) of all ranks to one;
    the input only gives the dtype."""
    mean, invstd = get_tensor(args, 1), get_tensor(args, 2)
    channels = mean.shape[-1] if mean.shape else 1
    running = count_read_bytes(get_optional_tensor(args, 3), get_optional_tensor(args, 4))
    nbytes = count_read_bytes(mean, invstd) + count_output_bytes(2 * channels, mean.dtype) + 2 * running
    return make_vector_cost(_EVALUATION * numel(mean), nbytes, mean.dtype, _SOURCE)


@OPS.formula("batch_norm_backward_reduce")
def _cost_batch_norm_sums(args: Args) -> OpCost:
    """batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, ...): sums of g and of g (x - mean): 4."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    inputs = count_read_bytes(grad, x, get_tensor(args, 2), get_tensor(args, 3), get_optional_tensor(args, 4))
    gradients = 4 if get_optional_tensor(args, 4) is not None else 2
    outputs = count_output_bytes(gradients * channels, _get_statistics_dtype(x.dtype))
    return make_vector_cost(4 * numel(x), inputs + outputs, x.dtype, _SOURCE)


def _make_batch_norm_apply(count: int, x_at: int) -> Formula:
    """batch_norm_elemt(input, ...) and batch_norm_backward_elemt(grad_out, input, ...): statistics are given."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, x_at)
        nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(numel(x), x.dtype)
        return make_vector_cost(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


@OPS.formula("_weight_norm_interface", op_class=OpClass.OTHER)
def _cost_weight_norm(args: Args) -> OpCost:
    """_weight_norm_interface(v, g, dim) -> g v / |v|, |v|: square, sum, scale."""
    v, g = get_tensor(args, 0), get_tensor(args, 1)
    outputs = count_output_bytes(numel(v), v.dtype) + count_output_bytes(numel(g), _get_statistics_dtype(g.dtype))
    return make_vector_cost(3 * numel(v), count_read_bytes(v, g) + outputs, v.dtype, _SOURCE)


@OPS.formula("_weight_norm_interface_backward", op_class=OpClass.OTHER)
def _cost_weight_norm_backward(args: Args) -> OpCost:
    """_weight_norm_interface_backward(grad_w, v, g, norms, dim): the product's sum (2), and 3 for v's gradient."""
    grad, v, g, norms = (get_tensor(args, index) for index in range(4))
    outputs = count_output_bytes(numel(v), v.dtype) + count_output_bytes(numel(g), g.dtype)
    return make_vector_cost(5 * numel(v), count_read_bytes(grad, v, g, norms) + outputs, v.dtype, _SOURCE)


@OPS.formula("renorm renorm_", op_class=OpClass.OTHER)
def _cost_renorm(args: Args) -> OpCost:
    """renorm(self, p, dim, maxnorm): a norm of each slice (2) and a product."""
    x = get_tensor(args, 0)
    return make_vector_cost(3 * numel(x), count_read_bytes(x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


OPS.add("native_batch_norm cudnn_batch_norm", _make_batch_norm(5), outputs=make_like(0, 1))
OPS.add("miopen_batch_norm _native_batch_norm_legit", _make_batch_norm(5))
OPS.add("_batch_norm_with_update", _make_batch_norm(None))
OPS.add("native_batch_norm_backward", _make_batch_norm_backward(0, 1, 9), outputs=make_like(1, 2))
OPS.add("batch_norm_backward", _make_batch_norm_backward(0, 1, 9))
OPS.add("cudnn_batch_norm_backward", _make_batch_norm_backward(1, 0), outputs=make_like(0, 2))
OPS.add("miopen_batch_norm_backward", _make_batch_norm_backward(1, 0))
OPS.add("batch_norm_elemt", _make_batch_norm_apply(4, 0))
OPS.add("batch_norm_backward_elemt", _make_batch_norm_apply(7, 1))
