"""Formulas of element-wise ops: every input read once, the output written once. `elementwise_ops` has most rows."""

import math

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    broadcast_shapes,
    count_output_bytes,
    count_read_bytes,
    get_tensor,
    infer_result_dtype,
    make_vector_cost,
    numel,
    walk_tensors,
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import Flops, OpFamily
from perfkit.cost.calls.output_rules import infer_dropout, make_combined, make_like
from perfkit.cost.formulas.elementwise_ops import ROWS

OPS = OpFamily(OpClass.POINTWISE)

_SOURCE = "element-wise"


def make_elementwise(
    count: int, out_dtype: str | None = None, tensors: int | None = None, widening: int = 1
) -> Formula:
    """Make a formula that combines up to `tensors` tensor arguments (all if None) elementwise into a new tensor.

    Its elements are `widening` times as large as the inputs' (two real numbers become a complex one).
    """

    def formula(args: Args) -> OpCost:
        inputs = tuple(walk_tensors(args))[:tensors]
        if not inputs:
            raise UnmodeledError("no tensor argument")
        elements = math.prod(broadcast_shapes(operand.shape for operand in inputs))
        dtype = infer_result_dtype(inputs)
        nbytes = count_read_bytes(*inputs) + widening * count_output_bytes(elements, out_dtype or dtype)
        return make_vector_cost(count * elements, nbytes, dtype, _SOURCE)

    return formula


def make_in_place(count: int) -> Formula:
    """The result replaces the first tensor."""

    def formula(args: Args) -> OpCost:
        first = get_tensor(args, 0)
        elements = numel(first)
        nbytes = count_read_bytes(*walk_tensors(args)) + count_output_bytes(elements, first.dtype)
        return make_vector_cost(count * elements, nbytes, first.dtype, _SOURCE)

    return formula


@OPS.formula("native_dropout", outputs=infer_dropout)
@OPS.formula("_fused_dropout")
def _cost_dropout(args: Args) -> OpCost:
    """native_dropout(input, p, train): scale and mask; writes the output and a mask of bool."""
    x = get_tensor(args, 0)
    elements = numel(x)
    nbytes = count_read_bytes(x) + count_output_bytes(elements, x.dtype) + elements
    return make_vector_cost(2 * elements, nbytes, x.dtype, _SOURCE)


@OPS.formula("native_dropout_backward", outputs=make_like(0))
@OPS.formula("_masked_scale")
def _cost_dropout_backward(args: Args) -> OpCost:
    """native_dropout_backward(grad, mask, scale)."""
    grad, mask = get_tensor(args, 0), get_tensor(args, 1)
    elements = numel(grad)
    return make_vector_cost(
        2 * elements, count_read_bytes(grad, mask) + count_output_bytes(elements, grad.dtype), grad.dtype, _SOURCE
    )


@OPS.formula("glu")
def _cost_glu(args: Args) -> OpCost:
    """Cost glu(self, dim): one half times the sigmoid of the other."""
    x = get_tensor(args, 0)
    elements = numel(x) // 2
    return make_vector_cost(5 * elements, count_read_bytes(x) + count_output_bytes(elements, x.dtype), x.dtype, _SOURCE)


@OPS.formula("glu_backward")
def _cost_glu_backward(args: Args) -> OpCost:
    """glu_backward(grad_output, self, dim): the sigmoid again (4), g s (1), g a s (1 - s) (4) for each output."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        9 * numel(grad), count_read_bytes(grad, x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


@OPS.formula("_prelu_kernel_backward")
def _cost_prelu_backward(args: Args) -> OpCost:
    """_prelu_kernel_backward(grad_output, self, weight): both gradients in full; the weight's is summed afterwards."""
    grad, x, weight = get_tensor(args, 0), get_tensor(args, 1), get_tensor(args, 2)
    nbytes = count_read_bytes(grad, x, weight) + 2 * count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(4 * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("rrelu_with_noise rrelu_with_noise_")
def _cost_rrelu(args: Args) -> OpCost:
    """Cost rrelu_with_noise(self, noise, ...): draws the noise that scales negative values, and writes it."""
    x, noise = get_tensor(args, 0), get_tensor(args, 1)
    nbytes = count_read_bytes(x) + count_output_bytes(numel(noise), noise.dtype) + count_output_bytes(numel(x), x.dtype)
    return make_vector_cost(2 * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("log_sigmoid_forward")
def _cost_log_sigmoid(args: Args) -> OpCost:
    """log_sigmoid_forward(self) -> output, buffer: the buffer is as large on a CPU and empty on a GPU, which is why
    it is not counted."""
    x = get_tensor(args, 0)
    return make_vector_cost(4 * numel(x), count_read_bytes(x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE)


@OPS.formula("log_sigmoid_backward")
def _cost_log_sigmoid_backward(args: Args) -> OpCost:
    """log_sigmoid_backward(grad_output, self, buffer): exp, add, divide, and two to combine."""
    grad, x = get_tensor(args, 0), get_tensor(args, 1)
    return make_vector_cost(
        5 * numel(x), count_read_bytes(grad, x) + count_output_bytes(numel(x), x.dtype), x.dtype, _SOURCE
    )


@OPS.formula(
    "fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"
    " _fake_quantize_per_tensor_affine_cachemask_tensor_qparams"
)
def _cost_fake_quantize(args: Args) -> OpCost:
    """fake_quantize(self, scale, zero_point, ...) -> output, mask: divide, round, shift, clamp (2), shift, multiply."""
    x = get_tensor(args, 0)
    others = count_read_bytes(*(operand for operand in walk_tensors(args[1:]) if len(operand.shape) < 2))
    nbytes = count_read_bytes(x) + others + count_output_bytes(numel(x), x.dtype) + numel(x)
    return make_vector_cost(7 * numel(x), nbytes, x.dtype, _SOURCE)


@OPS.formula("quantize_per_tensor quantize_per_channel")
def _cost_quantize(args: Args) -> OpCost:
    """quantize_per_tensor(self, scale, zero_point, dtype), ..._per_channel: divide, round, shift, clamp (2); 8 bits."""
    x = get_tensor(args, 0)
    return make_vector_cost(5 * numel(x), count_read_bytes(*walk_tensors(args)) + numel(x), x.dtype, _SOURCE)


@OPS.formula("dequantize")
def _cost_dequantize(args: Args) -> OpCost:
    """dequantize(self) -> fp32: shift and multiply."""
    x = get_tensor(args, 0)
    return make_vector_cost(2 * numel(x), count_read_bytes(x) + 4 * numel(x), "fp32", _SOURCE)


OPS.add("rrelu_with_noise_backward", make_elementwise(2))
OPS.add("_amp_update_scale_", make_in_place(1))


def _add_rows() -> None:
    for row in ROWS:
        flops = Flops.COUNTED if row.flops else Flops.NONE
        formula = make_elementwise(row.flops, row.dtype, row.tensors, row.widening)
        OPS.add(row.name, formula, flops=flops, outputs=make_combined(row.dtype))
        if row.in_place and not row.name.endswith("_backward"):
            OPS.add(f"{row.name}_", make_in_place(row.flops), flops=flops)


_add_rows()
