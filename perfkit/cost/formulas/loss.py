"""Softmax and losses, FLOPs per element by the steps of the formula.

Softmax, 5: maximum, subtract, exp, sum, divide; log-softmax, 5: maximum, subtract, exp, sum, subtract.
Softmax backward, 4: y (g - sum(g y)). Log-softmax backward, 4: g - exp(y) sum(g).
"""

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    broadcast_shapes,
    count_output_bytes,
    count_read_bytes,
    get_dtype_argument,
    get_optional_tensor,
    get_tensor,
    make_matrix_cost,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily
from perfkit.cost.calls.output_rules import make_like

OPS = OpFamily(OpClass.LOSS)

_NO_REDUCTION = 0


@OPS.formula("_softmax _log_softmax", op_class=OpClass.SOFTMAX, outputs=make_like(0))
@OPS.formula("_safe_softmax", op_class=OpClass.SOFTMAX)
def _cost_softmax(args: Args) -> OpCost:
    """_softmax, _log_softmax(self, dim, half_to_float)."""
    x = get_tensor(args, 0)
    out_dtype = "fp32" if len(args) > 2 and args[2] is True else x.dtype
    return make_vector_cost(
        5 * numel(x), count_read_bytes(x) + count_output_bytes(numel(x), out_dtype), x.dtype, "softmax"
    )


@OPS.formula("_softmax_backward_data _log_softmax_backward_data", op_class=OpClass.SOFTMAX, outputs=make_like(0))
def _cost_softmax_backward(args: Args) -> OpCost:
    """_softmax_backward_data, _log_softmax_backward_data(grad_output, output, dim, input_dtype)."""
    grad, y = get_tensor(args, 0), get_tensor(args, 1)
    out_dtype = get_dtype_argument(args, 3) or y.dtype
    return make_vector_cost(
        4 * numel(y), count_read_bytes(grad, y) + count_output_bytes(numel(y), out_dtype), y.dtype, "softmax"
    )


@OPS.formula("_masked_softmax", op_class=OpClass.SOFTMAX)
def _cost_masked_softmax(args: Args) -> OpCost:
    """_masked_softmax(self, mask, dim, mask_type)."""
    x = get_tensor(args, 0)
    nbytes = count_read_bytes(x, get_tensor(args, 1)) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(5 * numel(x), nbytes, x.dtype, "softmax")


@OPS.formula("nll_loss_forward nll_loss2d_forward")
def _cost_nll(args: Args) -> OpCost:
    """nll_loss_forward(self, target, weight, reduction, ignore_index): reads one element for every target."""
    x, target, weight = get_tensor(args, 0), get_tensor(args, 1), get_optional_tensor(args, 2)
    rows = numel(target)
    kept = rows if len(args) > 3 and args[3] == _NO_REDUCTION else 1
    nbytes = (
        count_read_bytes(target, weight) + count_output_bytes(rows, x.dtype) + count_output_bytes(kept + 1, x.dtype)
    )
    return make_vector_cost(2 * rows, nbytes, x.dtype, "loss")


@OPS.formula("torch_nn::_linear_cross_entropy_batch_chunked")
def _cost_linear_cross_entropy(args: Args) -> OpCost:
    """_linear_cross_entropy_batch_chunked(input, linear_weight, target, ..., compute_input_grad (12),
    compute_linear_weight_grad (13), ...): logits and, in the same pass, the gradients, a matrix product each.
    """
    x, weight = get_tensor(args, 0, 2), get_tensor(args, 1, 2)
    gradients = [tensor for tensor, wanted in ((x, args[12]), (weight, args[13])) if wanted is True]
    flops = 2.0 * x.shape[0] * x.shape[1] * weight.shape[0] * (1 + len(gradients))
    nbytes = count_read_bytes(x, weight, get_tensor(args, 2)) + sum(
        count_output_bytes(numel(it), it.dtype) for it in gradients
    )
    return make_matrix_cost(flops, nbytes, x.dtype, "matrix product")


@OPS.formula("nll_loss_backward nll_loss2d_backward")
def _cost_nll_backward(args: Args) -> OpCost:
    """nll_loss_backward(grad_output, self, target, weight, ...): writes a gradient of mostly zeros in full."""
    grad, x, target, weight = (
        get_tensor(args, 0),
        get_tensor(args, 1),
        get_tensor(args, 2),
        get_optional_tensor(args, 3),
    )
    nbytes = count_read_bytes(grad, target, weight) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(2 * numel(target), nbytes, x.dtype, "loss")


def _make_pair_loss(count: int) -> Formula:
    """loss(self, target, ..., reduction): `count` FLOPs an element, and one more to reduce."""

    def formula(args: Args) -> OpCost:
        x, target = get_tensor(args, 0), get_tensor(args, 1)
        elements = 1
        for size in broadcast_shapes((x.shape, target.shape)):
            elements *= size
        # `reduction` is the first integer after the tensors and the optional weights.
        reduction = next((value for value in args[2:] if isinstance(value, int)), 1)
        kept = elements if reduction == _NO_REDUCTION else 1
        inputs = count_read_bytes(x, target, get_optional_tensor(args, 2), get_optional_tensor(args, 3))
        flops = (count + (reduction != _NO_REDUCTION)) * elements
        return make_vector_cost(flops, inputs + count_output_bytes(kept, x.dtype), x.dtype, "loss")

    return formula


def _make_pair_loss_backward(count: int) -> Formula:
    """loss_backward(grad_output, self, target, ...)."""

    def formula(args: Args) -> OpCost:
        grad, x, target = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
        return make_vector_cost(
            count * numel(x), count_read_bytes(grad, x, target) + count_output_bytes(numel(x), x.dtype), x.dtype, "loss"
        )

    return formula


@OPS.formula("_masked_softmax_backward", op_class=OpClass.SOFTMAX)
def _cost_masked_softmax_backward(args: Args) -> OpCost:
    """_masked_softmax_backward(grad_output, output, mask, dim)."""
    grad, y, mask = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    return make_vector_cost(
        4 * numel(y), count_read_bytes(grad, y, mask) + count_output_bytes(numel(y), y.dtype), y.dtype, "softmax"
    )


@OPS.formula("multi_margin_loss multilabel_margin_loss_forward")
def _cost_margin_loss(args: Args) -> OpCost:
    """multi_margin_loss, multilabel_margin_loss_forward(self, target, ...): margin, compare, weigh, add."""
    x, target = get_tensor(args, 0), get_tensor(args, 1)
    rows = x.shape[0] if len(x.shape) > 1 else 1
    reduction = next((value for value in reversed(args) if isinstance(value, int)), 1)
    kept = rows if reduction == _NO_REDUCTION else 1
    return make_vector_cost(
        4 * numel(x), count_read_bytes(x, target) + count_output_bytes(kept, x.dtype), x.dtype, "loss"
    )


def _count_ctc_states(log_probs: TensorArg, targets: TensorArg) -> int:
    """Time steps times samples times states: a target of s labels has 2 s + 1 states (labels and blanks)."""
    if len(log_probs.shape) != 3 or len(targets.shape) != 2:
        raise UnmodeledError("concatenated targets: lengths depend on data")
    return log_probs.shape[0] * log_probs.shape[1] * (2 * targets.shape[1] + 1)


@OPS.formula("_ctc_loss")
def _cost_ctc(args: Args) -> OpCost:
    """_ctc_loss(log_probs, targets, ...) -> loss, log_alpha. A state sums three paths in the logarithm (11) and adds
    the label's probability: 12 (Graves et al. 2006, equation 6)."""
    x, targets = get_tensor(args, 0), get_tensor(args, 1)
    states = _count_ctc_states(x, targets)
    nbytes = count_read_bytes(x, targets) + count_output_bytes(states + x.shape[1], x.dtype)
    return make_vector_cost(12 * states, nbytes, x.dtype, "loss")


@OPS.formula("_ctc_loss_backward")
def _cost_ctc_backward(args: Args) -> OpCost:
    """_ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, loss, log_alpha, ...): the backward
    variables (12), and 4 to combine them to the gradient of each state."""
    x, targets, alpha = get_tensor(args, 1), get_tensor(args, 2), get_tensor(args, 6)
    nbytes = count_read_bytes(x, targets, alpha) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(16 * numel(alpha), nbytes, x.dtype, "loss")


OPS.add("soft_margin_loss", _make_pair_loss(5))  # two products, exp, add, log
OPS.add("soft_margin_loss_backward", _make_pair_loss_backward(6))
OPS.add("mse_loss", _make_pair_loss(2))  # subtract, square
OPS.add("mse_loss_backward", _make_pair_loss_backward(3))  # subtract, two products
OPS.add("smooth_l1_loss huber_loss", _make_pair_loss(5))  # subtract, absolute value, compare, square, scale
OPS.add("smooth_l1_loss_backward huber_loss_backward", _make_pair_loss_backward(4))
OPS.add("binary_cross_entropy", _make_pair_loss(6))  # two logarithms, 1 - x, 1 - t, two products less one sum
OPS.add("binary_cross_entropy_backward", _make_pair_loss_backward(6))
OPS.add("binary_cross_entropy_with_logits", _make_pair_loss(7))  # max, product, subtract, abs, exp, log1p, add
