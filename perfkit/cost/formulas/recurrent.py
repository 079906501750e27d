"""Recurrent layers and cells: each weight matrix multiplies each row once, and twice more in backward."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_optional_tensor,
    get_tensor,
    get_tensor_list,
    make_matrix_cost,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.OTHER)

_SOURCE = "recurrent layer"
_CELL = "recurrent cell"


def _count_rows(x: TensorArg) -> int:
    """Time steps of all samples: (time, batch, features), or (rows, features) for sequences of several lengths."""
    if len(x.shape) not in (2, 3):
        raise UnmodeledError("input of a recurrent layer is not (time, batch, features)")
    return math.prod(x.shape[:-1])


def _get_weights(args: Args, x: TensorArg) -> tuple[TensorArg, ...]:
    """The list of weights, which a trace records without a dtype: it is that of the input."""
    return tuple(weight._replace(dtype=weight.dtype or x.dtype) for weight in get_tensor_list(args, 1))


def _count_flops(rows: int, weights: tuple[TensorArg, ...]) -> float:
    return 2.0 * rows * sum(numel(weight) for weight in weights if len(weight.shape) == 2)


def _make_layers(hidden_at: int, states_at: int, projection: bool) -> Formula:
    """_cudnn_rnn, miopen_rnn(input, weight[], ...) -> output, hy, cy: all layers and directions.

    What is kept for backward is not counted: a lower bound. `hidden_at`: hidden size, followed by the projection's
    if `projection`, the number of layers, and three further on by whether it is bidirectional.
    """

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        weights, rows = _get_weights(args, x), _count_rows(x)
        states = count_read_bytes(get_optional_tensor(args, states_at), get_optional_tensor(args, states_at + 1))
        at = hidden_at + 1 + projection
        width = args[hidden_at] if hidden_at < len(args) else None
        if projection and at <= len(args) and args[at - 1]:
            width = args[at - 1]
        directions = 2 if len(args) > at + 4 and args[at + 4] is True else 1
        output = count_output_bytes(rows * width * directions, x.dtype) if isinstance(width, int) else math.nan
        return make_matrix_cost(
            _count_flops(rows, weights), count_read_bytes(x, *weights) + output + 2 * states, x.dtype, _SOURCE
        )

    return formula


@OPS.formula("_cudnn_rnn_backward miopen_rnn_backward")
def _cost_layers_backward(args: Args) -> OpCost:
    """_cudnn_rnn_backward, miopen_rnn_backward(input, weight[], stride, weight_buf, hx, cx, output, grad_output,
    grad_hy, grad_cy, ...): gradients of the input, the state and the weights."""
    x = get_tensor(args, 0)
    weights = _get_weights(args, x)
    rows = math.prod(x.shape[:-1])
    states = [get_optional_tensor(args, index) for index in (4, 5)]
    inputs = count_read_bytes(x, *weights, *states, *(get_optional_tensor(args, index) for index in range(6, 10)))
    outputs = sum(
        count_output_bytes(numel(operand), operand.dtype) for operand in (x, *weights, *states) if operand is not None
    )
    return make_matrix_cost(2 * _count_flops(rows, weights), inputs + outputs, x.dtype, _SOURCE)


@OPS.formula("mkldnn_rnn_layer")
def _cost_mkldnn(args: Args) -> OpCost:
    """mkldnn_rnn_layer(input, weight0, weight1, weight2, weight3, hx, cx, reverse, batch_sizes, mode, hidden, ...):
    one layer in one direction -> output, hy, cy; its workspace is not counted."""
    x, weights = get_tensor(args, 0), (get_tensor(args, 1), get_tensor(args, 2))
    rows = _count_rows(x)
    biases = [bias for bias in (get_optional_tensor(args, 3), get_optional_tensor(args, 4)) if bias is not None]
    states = count_read_bytes(get_optional_tensor(args, 5), get_optional_tensor(args, 6))
    hidden = weights[1].shape[-1]
    nbytes = count_read_bytes(x, *weights, *biases) + 2 * states + count_output_bytes(rows * hidden, x.dtype)
    return make_matrix_cost(_count_flops(rows, weights), nbytes, x.dtype, _SOURCE)


@OPS.formula("mkldnn_rnn_layer_backward")
def _cost_mkldnn_backward(args: Args) -> OpCost:
    """mkldnn_rnn_layer_backward(input, weight1..4, hx, cx, output, hy, cy, grad_output, grad_hy, grad_cy, ...)."""
    x = get_tensor(args, 0)
    weights = tuple(
        weight for weight in (get_optional_tensor(args, index) for index in range(1, 5)) if weight is not None
    )
    states = [state for state in (get_optional_tensor(args, 5), get_optional_tensor(args, 6)) if state is not None]
    inputs = count_read_bytes(x, *weights, *states, *(get_optional_tensor(args, index) for index in range(7, 13)))
    outputs = sum(count_output_bytes(numel(operand), operand.dtype) for operand in (x, *weights, *states))
    return make_matrix_cost(2 * _count_flops(_count_rows(x), weights[:2]), inputs + outputs, x.dtype, _SOURCE)


@OPS.formula("_thnn_fused_lstm_cell")
def _cost_lstm_cell(args: Args) -> OpCost:
    """_thnn_fused_lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias) -> hy, cy, workspace.

    A unit: 4 gates added up (4, 12 with biases), 3 sigmoids (12), tanh, f c + i g (3), o tanh(c) (2): 22 or 30.
    """
    gates, cx = get_tensor(args, 0), get_tensor(args, 2)
    biases = (get_optional_tensor(args, 3), get_optional_tensor(args, 4))
    nbytes = count_read_bytes(gates, get_tensor(args, 1), cx, *biases) + count_output_bytes(
        2 * numel(cx) + numel(gates), cx.dtype
    )
    return make_vector_cost((22 if biases[0] is None else 30) * numel(cx), nbytes, cx.dtype, _CELL)


@OPS.formula("_thnn_fused_gru_cell")
def _cost_gru_cell(args: Args) -> OpCost:
    """_thnn_fused_gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias) -> hy, workspace (5 a unit).

    A unit: two gates (add, sigmoid: 10), the new state (multiply, add, tanh: 3), n + z (h - n) (3): 16, and 6 with
    biases.
    """
    gates, hx = get_tensor(args, 0), get_tensor(args, 2)
    biases = (get_optional_tensor(args, 3), get_optional_tensor(args, 4))
    nbytes = count_read_bytes(gates, get_tensor(args, 1), hx, *biases) + count_output_bytes(6 * numel(hx), hx.dtype)
    return make_vector_cost((16 if biases[0] is None else 22) * numel(hx), nbytes, hx.dtype, _CELL)


@OPS.formula("_thnn_fused_lstm_cell_backward_impl")
def _cost_lstm_cell_backward(args: Args) -> OpCost:
    """_thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, has_bias) -> grad_gates, grad_cx.

    A unit: tanh(c), the state's gradient (6), four products (4), derivatives of 3 sigmoids (9) and a tanh (3): 23.
    """
    cx, cy, workspace = get_tensor(args, 2), get_tensor(args, 3), get_tensor(args, 4)
    inputs = count_read_bytes(get_optional_tensor(args, 0), get_optional_tensor(args, 1), cx, cy, workspace)
    return make_vector_cost(
        23 * numel(cx), inputs + count_output_bytes(numel(workspace) + numel(cx), cx.dtype), cx.dtype, _CELL
    )


@OPS.formula("_thnn_fused_gru_cell_backward")
def _cost_gru_cell_backward(args: Args) -> OpCost:
    """_thnn_fused_gru_cell_backward(grad_hy, workspace, has_bias) -> gradients of both gates (3 a unit) and of hx.

    A unit: gradients of z (5), n (5), r (5) and h (1): 16.
    """
    grad, workspace = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        16 * numel(grad),
        count_read_bytes(grad, workspace) + count_output_bytes(7 * numel(grad), grad.dtype),
        grad.dtype,
        _CELL,
    )


OPS.add("_cudnn_rnn", _make_layers(hidden_at=7, states_at=4, projection=True))
OPS.add("miopen_rnn", _make_layers(hidden_at=6, states_at=3, projection=False))
