"""Softmax and losses, FLOPs per element by the steps of the formula.

Softmax, 5: maximum, subtract, exp, sum, divide; log-softmax, 5: maximum, subtract, exp, sum, subtract.
Softmax backward, 4: y (g - sum(g y)). Log-softmax backward, 4: g - exp(y) sum(g).
"""

from perfkit.cost.args import (
    Args,
    Formula,
    UnmodelledError,
    broadcast,
    dtype_argument,
    matrix,
    numel,
    optional_tensor,
    out_bytes,
    read_bytes,
    tensor,
    vector,
)
from perfkit.cost.call import OpCost, TensorArg

_NO_REDUCTION = 0


def _softmax(args: Args) -> OpCost:
    """_softmax, _log_softmax(self, dim, half_to_float)."""
    x = tensor(args, 0)
    out_dtype = "fp32" if len(args) > 2 and args[2] is True else x.dtype
    return vector(5 * numel(x), read_bytes(x) + out_bytes(numel(x), out_dtype), x.dtype, "softmax")


def _softmax_backward(args: Args) -> OpCost:
    """_softmax_backward_data, _log_softmax_backward_data(grad_output, output, dim, input_dtype)."""
    grad, y = tensor(args, 0), tensor(args, 1)
    out_dtype = dtype_argument(args, 3) or y.dtype
    return vector(4 * numel(y), read_bytes(grad, y) + out_bytes(numel(y), out_dtype), y.dtype, "softmax")


def _masked_softmax(args: Args) -> OpCost:
    """_masked_softmax(self, mask, dim, mask_type)."""
    x = tensor(args, 0)
    nbytes = read_bytes(x, tensor(args, 1)) + out_bytes(numel(x), x.dtype)
    return vector(5 * numel(x), nbytes, x.dtype, "softmax")


def _nll(args: Args) -> OpCost:
    """nll_loss_forward(self, target, weight, reduction, ignore_index): reads one element for every target."""
    x, target, weight = tensor(args, 0), tensor(args, 1), optional_tensor(args, 2)
    rows = numel(target)
    kept = rows if len(args) > 3 and args[3] == _NO_REDUCTION else 1
    nbytes = read_bytes(target, weight) + out_bytes(rows, x.dtype) + out_bytes(kept + 1, x.dtype)
    return vector(2 * rows, nbytes, x.dtype, "loss")


def _linear_cross_entropy(args: Args) -> OpCost:
    """_linear_cross_entropy_batch_chunked(input, linear_weight, target, ..., compute_input_grad (12),
    compute_linear_weight_grad (13), ...): logits and, in the same pass, the gradients, a matrix product each.
    """
    x, weight = tensor(args, 0, 2), tensor(args, 1, 2)
    gradients = [given for given, wanted in ((x, args[12]), (weight, args[13])) if wanted is True]
    flops = 2.0 * x.shape[0] * x.shape[1] * weight.shape[0] * (1 + len(gradients))
    nbytes = read_bytes(x, weight, tensor(args, 2)) + sum(out_bytes(numel(it), it.dtype) for it in gradients)
    return matrix(flops, nbytes, x.dtype, "matrix product")


def _nll_backward(args: Args) -> OpCost:
    """nll_loss_backward(grad_output, self, target, weight, ...): writes a gradient of mostly zeros in full."""
    grad, x, target, weight = tensor(args, 0), tensor(args, 1), tensor(args, 2), optional_tensor(args, 3)
    nbytes = read_bytes(grad, target, weight) + out_bytes(numel(x), x.dtype)
    return vector(2 * numel(target), nbytes, x.dtype, "loss")


def _pair(count: int) -> Formula:
    """loss(self, target, ..., reduction): `count` FLOPs an element, and one more to reduce."""

    def formula(args: Args) -> OpCost:
        x, target = tensor(args, 0), tensor(args, 1)
        elements = 1
        for size in broadcast((x.shape, target.shape)):
            elements *= size
        # `reduction` is the first integer after the tensors and the optional weights.
        reduction = next((value for value in args[2:] if isinstance(value, int)), 1)
        kept = elements if reduction == _NO_REDUCTION else 1
        inputs = read_bytes(x, target, optional_tensor(args, 2), optional_tensor(args, 3))
        flops = (count + (reduction != _NO_REDUCTION)) * elements
        return vector(flops, inputs + out_bytes(kept, x.dtype), x.dtype, "loss")

    return formula


def _pair_backward(count: int) -> Formula:
    """loss_backward(grad_output, self, target, ...)."""

    def formula(args: Args) -> OpCost:
        grad, x, target = tensor(args, 0), tensor(args, 1), tensor(args, 2)
        return vector(count * numel(x), read_bytes(grad, x, target) + out_bytes(numel(x), x.dtype), x.dtype, "loss")

    return formula


def _masked_softmax_backward(args: Args) -> OpCost:
    """_masked_softmax_backward(grad_output, output, mask, dim)."""
    grad, y, mask = tensor(args, 0), tensor(args, 1), tensor(args, 2)
    return vector(4 * numel(y), read_bytes(grad, y, mask) + out_bytes(numel(y), y.dtype), y.dtype, "softmax")


def _classes(args: Args) -> OpCost:
    """multi_margin_loss, multilabel_margin_loss_forward(self, target, ...): margin, compare, weigh, add."""
    x, target = tensor(args, 0), tensor(args, 1)
    rows = x.shape[0] if len(x.shape) > 1 else 1
    reduction = next((value for value in reversed(args) if isinstance(value, int)), 1)
    kept = rows if reduction == _NO_REDUCTION else 1
    return vector(4 * numel(x), read_bytes(x, target) + out_bytes(kept, x.dtype), x.dtype, "loss")


def _ctc_states(log_probs: TensorArg, targets: TensorArg) -> int:
    """Time steps times samples times states: a target of s labels has 2 s + 1 states (labels and blanks)."""
    if len(log_probs.shape) != 3 or len(targets.shape) != 2:
        raise UnmodelledError("concatenated targets: their lengths are data")
    return log_probs.shape[0] * log_probs.shape[1] * (2 * targets.shape[1] + 1)


def _ctc(args: Args) -> OpCost:
    """_ctc_loss(log_probs, targets, ...) -> loss, log_alpha. A state sums three paths in the logarithm (11) and adds
    the label's probability: 12 (Graves et al. 2006, equation 6)."""
    x, targets = tensor(args, 0), tensor(args, 1)
    states = _ctc_states(x, targets)
    nbytes = read_bytes(x, targets) + out_bytes(states + x.shape[1], x.dtype)
    return vector(12 * states, nbytes, x.dtype, "loss")


def _ctc_backward(args: Args) -> OpCost:
    """_ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, ...): the backward
    variables (12), and 4 to combine them to the gradient of each state."""
    x, targets, alpha = tensor(args, 1), tensor(args, 2), tensor(args, 6)
    nbytes = read_bytes(x, targets, alpha) + out_bytes(numel(x), x.dtype)
    return vector(16 * numel(alpha), nbytes, x.dtype, "loss")


FORMULAS: dict[str, Formula] = {
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_safe_softmax": _softmax,
    "aten::_masked_softmax": _masked_softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::nll_loss_forward": _nll,
    "aten::nll_loss2d_forward": _nll,
    "aten::nll_loss_backward": _nll_backward,
    "aten::nll_loss2d_backward": _nll_backward,
    "aten::_masked_softmax_backward": _masked_softmax_backward,
    "aten::multi_margin_loss": _classes,
    "aten::multilabel_margin_loss_forward": _classes,
    "aten::soft_margin_loss": _pair(5),  # two products, exp, add, log
    "aten::soft_margin_loss_backward": _pair_backward(6),
    "torch_nn::_linear_cross_entropy_batch_chunked": _linear_cross_entropy,
    "aten::_ctc_loss": _ctc,
    "aten::_ctc_loss_backward": _ctc_backward,
    "aten::mse_loss": _pair(2),  # subtract, square
    "aten::mse_loss_backward": _pair_backward(3),  # subtract, two products
    "aten::smooth_l1_loss": _pair(5),  # subtract, absolute value, compare, square, scale
    "aten::smooth_l1_loss_backward": _pair_backward(4),
    "aten::huber_loss": _pair(5),
    "aten::huber_loss_backward": _pair_backward(4),
    "aten::binary_cross_entropy": _pair(6),  # two logarithms, 1 - x, 1 - t, two products less one sum
    "aten::binary_cross_entropy_backward": _pair_backward(6),
    "aten::binary_cross_entropy_with_logits": _pair(7),  # max, product, subtract, abs, exp, log1p, add
}
