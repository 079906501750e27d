"""Normalisation layers: FLOPs per input element, by the steps of the textbook formula.

Forward, 8: mean (1), variance (subtract, square, add: 3), normalise (subtract, multiply: 2), scale and shift (2).
Without a mean (RMS norm), 4: square, add, multiply, scale. Backward, 14: rebuild the normalised input (2), two sums
with their products (4), combine to the input's gradient (5), gradients of scale and shift (3). RMS norm backward, 9:
rebuild (1), one sum with its products (3), combine (3), gradient of the scale (2). A gradient that is not asked for
(`output_mask`) costs nothing; a mask that a trace lost asks for all. Batch norm in evaluation, 4 forward;
with sums given (synchronised batch norm), 7 backward.
"""

from perfkit.cost.args import Args, Formula, all_tensors, numel, optional_tensor, out_bytes, read_bytes, tensor, vector
from perfkit.cost.call import OpCost

_SOURCE = "normalisation"
_FORWARD, _RMS_FORWARD, _EVALUATION = 8, 4, 4
# Backward: to rebuild the normalised input, for the gradient of the input, for those of scale and shift.
_BACKWARD, _RMS_BACKWARD = (2, 9, 3), (1, 6, 2)


def _statistics_dtype(dtype: str) -> str:
    """Statistics of half-precision inputs are kept in single precision."""
    return "fp32" if dtype in ("bf16", "fp16") else dtype


def _layer_norm(args: Args) -> OpCost:
    """native_layer_norm(input, normalized_shape, weight, bias, eps) -> output, mean, rstd."""
    x, weight, bias = tensor(args, 0), optional_tensor(args, 2), optional_tensor(args, 3)
    shape = args[1]
    normalised_dims = len(shape) if isinstance(shape, tuple) else 1
    rows = 1
    for size in x.shape[: len(x.shape) - normalised_dims]:
        rows *= size
    outputs = out_bytes(numel(x), x.dtype) + out_bytes(2 * rows, _statistics_dtype(x.dtype))
    return vector(_FORWARD * numel(x), read_bytes(x, weight, bias) + outputs, x.dtype, _SOURCE)


def _asked(args: Args, mask_at: int | None) -> tuple[bool, bool, bool]:
    """Which gradients are asked for: of the input, the scale, the shift."""
    mask = args[mask_at] if mask_at is not None and mask_at < len(args) else None
    if not isinstance(mask, tuple) or len(mask) < 2:
        return True, True, True
    return mask[0] is not False, mask[1] is not False, mask[-1] is not False


def _backward_flops(counts: tuple[int, int, int], asked: tuple[bool, bool, bool]) -> int:
    rebuild, of_input, of_parameters = counts
    return rebuild + (of_input if asked[0] else 0) + (of_parameters if asked[1] or asked[2] else 0)


def _layer_norm_backward(args: Args) -> OpCost:
    """native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)."""
    grad, x, mean, rstd = tensor(args, 0), tensor(args, 1), tensor(args, 3), tensor(args, 4)
    weight, bias = optional_tensor(args, 5), optional_tensor(args, 6)
    asked = _asked(args, 7)
    inputs = read_bytes(grad, x, mean, rstd, weight if asked[0] else None)
    outputs = read_bytes(weight if asked[1] else None, bias if asked[2] else None)
    outputs += out_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return vector(_backward_flops(_BACKWARD, asked) * numel(x), inputs + outputs, x.dtype, _SOURCE)


def _rms_norm(args: Args) -> OpCost:
    """_fused_rms_norm(input, normalized_shape, weight, eps) -> output, rstd."""
    x, weight = tensor(args, 0), optional_tensor(args, 2)
    rows = numel(x) // max(x.shape[-1], 1)
    outputs = out_bytes(numel(x), x.dtype) + out_bytes(rows, _statistics_dtype(x.dtype))
    return vector(_RMS_FORWARD * numel(x), read_bytes(x, weight) + outputs, x.dtype, _SOURCE)


def _rms_norm_backward(args: Args) -> OpCost:
    """_fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, output_mask)."""
    grad, x, rstd, weight = tensor(args, 0), tensor(args, 1), tensor(args, 3), optional_tensor(args, 4)
    asked = _asked(args, 5)
    nbytes = read_bytes(grad, x, rstd, weight if asked[0] else None, weight if asked[1] else None)
    nbytes += out_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return vector(_backward_flops(_RMS_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)


def _batch_norm(training_at: int | None) -> Formula:
    """batch norms(input, weight, bias, running_mean, running_var, training, ...): statistics per channel."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, 0)
        parameters = read_bytes(*(optional_tensor(args, index) for index in (1, 2)))
        running = read_bytes(*(optional_tensor(args, index) for index in (3, 4)))
        training = training_at is None or (training_at < len(args) and args[training_at] is True)
        channels = x.shape[1] if len(x.shape) > 1 else 1
        statistics = out_bytes(2 * channels, _statistics_dtype(x.dtype)) + running if training else 0.0
        nbytes = read_bytes(x) + parameters + running + out_bytes(numel(x), x.dtype) + statistics
        return vector((_FORWARD if training else _EVALUATION) * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _batch_norm_backward(grad_at: int, x_at: int, mask_at: int | None = None) -> Formula:
    """Backward of a batch norm; gradients of input, weight and bias."""

    def formula(args: Args) -> OpCost:
        grad, x, weight = tensor(args, grad_at), tensor(args, x_at), optional_tensor(args, 2)
        channels = x.shape[1] if len(x.shape) > 1 else 1
        statistics = out_bytes(2 * channels, _statistics_dtype(x.dtype))
        asked = _asked(args, mask_at)
        nbytes = read_bytes(grad, x, weight if asked[0] else None) + statistics
        nbytes += (out_bytes(numel(x), x.dtype) if asked[0] else 0.0) + (asked[1] + asked[2]) * read_bytes(weight)
        return vector(_backward_flops(_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _group_norm(args: Args) -> OpCost:
    """native_group_norm(input, weight, bias, N, C, HxW, groups, eps) -> output, mean, rstd."""
    x, batch, groups = tensor(args, 0), args[3], args[6]
    rows = batch * groups if isinstance(batch, int) and isinstance(groups, int) else 0
    outputs = out_bytes(numel(x), x.dtype) + out_bytes(2 * rows, _statistics_dtype(x.dtype))
    inputs = read_bytes(x, optional_tensor(args, 1), optional_tensor(args, 2))
    return vector(_FORWARD * numel(x), inputs + outputs, x.dtype, _SOURCE)


def _group_norm_backward(args: Args) -> OpCost:
    """native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, groups, output_mask)."""
    grad, x, mean, rstd, weight = (*(tensor(args, index) for index in range(4)), optional_tensor(args, 4))
    asked = _asked(args, 9)
    nbytes = read_bytes(grad, x, mean, rstd, weight if asked[0] else None) + (asked[1] + asked[2]) * read_bytes(weight)
    nbytes += out_bytes(numel(x), x.dtype) if asked[0] else 0.0
    return vector(_backward_flops(_BACKWARD, asked) * numel(x), nbytes, x.dtype, _SOURCE)


def _evaluated(args: Args) -> OpCost:
    """_native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, ...)."""
    x = tensor(args, 0)
    nbytes = read_bytes(x, *(optional_tensor(args, index) for index in range(1, 5))) + out_bytes(numel(x), x.dtype)
    return vector(_EVALUATION * numel(x), nbytes, x.dtype, _SOURCE)


def _statistics(args: Args) -> OpCost:
    """batch_norm_stats(input, eps) -> mean, invstd of each channel: a variance is 4."""
    x = tensor(args, 0)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    nbytes = read_bytes(x) + out_bytes(2 * channels, _statistics_dtype(x.dtype))
    return vector(4 * numel(x), nbytes, x.dtype, _SOURCE)


def _gathered_statistics(args: Args) -> OpCost:
    """batch_norm_gather_stats(input, mean, invstd, ...): statistics of all ranks (rank, channel) become one; the input
    only tells the dtype."""
    mean, invstd = tensor(args, 1), tensor(args, 2)
    channels = mean.shape[-1] if mean.shape else 1
    running = read_bytes(optional_tensor(args, 3), optional_tensor(args, 4))
    nbytes = read_bytes(mean, invstd) + out_bytes(2 * channels, mean.dtype) + 2 * running
    return vector(_EVALUATION * numel(mean), nbytes, mean.dtype, _SOURCE)


def _batch_norm_sums(args: Args) -> OpCost:
    """batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, ...): sums of g and of g (x - mean): 4."""
    grad, x = tensor(args, 0), tensor(args, 1)
    channels = x.shape[1] if len(x.shape) > 1 else 1
    inputs = read_bytes(grad, x, tensor(args, 2), tensor(args, 3), optional_tensor(args, 4))
    gradients = 4 if optional_tensor(args, 4) is not None else 2
    outputs = out_bytes(gradients * channels, _statistics_dtype(x.dtype))
    return vector(4 * numel(x), inputs + outputs, x.dtype, _SOURCE)


def _batch_norm_apply(count: int, x_at: int) -> Formula:
    """batch_norm_elemt(input, ...) and batch_norm_backward_elemt(grad_out, input, ...): statistics are given."""

    def formula(args: Args) -> OpCost:
        x = tensor(args, x_at)
        nbytes = read_bytes(*all_tensors(args)) + out_bytes(numel(x), x.dtype)
        return vector(count * numel(x), nbytes, x.dtype, _SOURCE)

    return formula


def _weight_norm(args: Args) -> OpCost:
    """_weight_norm_interface(v, g, dim) -> g v / |v|, |v|: square, sum, scale."""
    v, g = tensor(args, 0), tensor(args, 1)
    outputs = out_bytes(numel(v), v.dtype) + out_bytes(numel(g), _statistics_dtype(g.dtype))
    return vector(3 * numel(v), read_bytes(v, g) + outputs, v.dtype, _SOURCE)


def _weight_norm_backward(args: Args) -> OpCost:
    """_weight_norm_interface_backward(grad_w, v, g, norms, dim): the product's sum (2), and 3 for v's gradient."""
    grad, v, g, norms = (tensor(args, index) for index in range(4))
    outputs = out_bytes(numel(v), v.dtype) + out_bytes(numel(g), g.dtype)
    return vector(5 * numel(v), read_bytes(grad, v, g, norms) + outputs, v.dtype, _SOURCE)


def _renorm(args: Args) -> OpCost:
    """renorm(self, p, dim, maxnorm): a norm of each slice (2) and a product."""
    x = tensor(args, 0)
    return vector(3 * numel(x), read_bytes(x) + out_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


FORMULAS: dict[str, Formula] = {
    "aten::native_layer_norm": _layer_norm,
    "aten::native_layer_norm_backward": _layer_norm_backward,
    "aten::_fused_rms_norm": _rms_norm,
    "aten::_fused_rms_norm_backward": _rms_norm_backward,
    "aten::native_batch_norm": _batch_norm(5),
    "aten::cudnn_batch_norm": _batch_norm(5),
    "aten::miopen_batch_norm": _batch_norm(5),
    "aten::_native_batch_norm_legit": _batch_norm(5),
    "aten::_batch_norm_with_update": _batch_norm(None),
    "aten::native_batch_norm_backward": _batch_norm_backward(0, 1, 9),
    "aten::batch_norm_backward": _batch_norm_backward(0, 1, 9),
    "aten::cudnn_batch_norm_backward": _batch_norm_backward(1, 0),
    "aten::miopen_batch_norm_backward": _batch_norm_backward(1, 0),
    "aten::_native_batch_norm_legit_no_training": _evaluated,
    "aten::_batch_norm_no_update": _evaluated,
    "aten::batch_norm_stats": _statistics,
    "aten::batch_norm_update_stats": _statistics,
    "aten::batch_norm_gather_stats": _gathered_statistics,
    "aten::batch_norm_gather_stats_with_counts": _gathered_statistics,
    "aten::batch_norm_elemt": _batch_norm_apply(4, 0),
    "aten::batch_norm_backward_reduce": _batch_norm_sums,
    "aten::batch_norm_backward_elemt": _batch_norm_apply(7, 1),
    "aten::_weight_norm_interface": _weight_norm,
    "aten::_weight_norm_interface_backward": _weight_norm_backward,
    "aten::renorm": _renorm,
    "aten::renorm_": _renorm,
    "aten::native_group_norm": _group_norm,
    "aten::native_group_norm_backward": _group_norm_backward,
}
