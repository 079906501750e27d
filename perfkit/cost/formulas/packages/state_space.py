"""State-space layers: mamba-ssm, causal-conv1d, and both in vLLM.

A selective scan has 8 FLOPs for each position, channel and state (exp(delta A): 2, delta B u: 2, the new state: 2, the
product with C and its sum: 2), counted as Mamba (arXiv:2312.00752, equations 2 and 4) and `selective_scan_ref` of
mamba_ssm/ops/selective_scan_interface.py write it.

Signatures: that file, causal_conv1d/cpp_functions.py of causal-conv1d, csrc/torch_bindings.cpp of vLLM.
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
)
from perfkit.cost.calls.op_call import OpClass, OpCost
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.OTHER)

_PER_STATE = 8
_SKIP, _GATE, _SOFTPLUS, _BIAS, _SILU = 2, 6, 3, 1, 5


def _make_scan(softplus_at: int, bias_at: int) -> Formula:
    """selective_scan(u (..., channels, positions), delta, A (channels, states), B, C, D, z, delta_bias, softplus)."""

    def formula(args: Args) -> OpCost:
        u, a = get_tensor(args, 0), get_tensor(args, 2, 2)
        skip, gate, bias = (get_optional_tensor(args, index) for index in (5, 6, bias_at))
        each = _PER_STATE * a.shape[1]
        each += sum(count for count, value in ((_SKIP, skip), (_GATE, gate), (_BIAS, bias)) if value is not None)
        each += _SOFTPLUS if softplus_at < len(args) and args[softplus_at] is True else 0
        nbytes = count_read_bytes(*(get_tensor(args, index) for index in range(5)), skip, gate, bias)
        return make_vector_cost(
            each * numel(u), nbytes + count_output_bytes(numel(u), u.dtype), u.dtype, "selective scan"
        )

    return formula


@OPS.formula("DaoAILab::_causal_conv1d_fwd_cpp", op_class=OpClass.CONVOLUTION)
def _cost_causal_convolution(args: Args) -> OpCost:
    """_causal_conv1d_fwd_cpp(x (batch, channels, positions), weight (channels, width), bias, ..., out, states, silu):
    depthwise, on vector units."""
    x, weight, bias = get_tensor(args, 0, 3), get_tensor(args, 1, 2), get_optional_tensor(args, 2)
    out = get_tensor(args, 5)
    each = 2 * weight.shape[1] + (_SILU if len(args) > 7 and args[7] is True else 0)
    nbytes = count_read_bytes(x, weight, bias) + count_output_bytes(numel(out), out.dtype)
    return make_vector_cost(each * numel(x), nbytes, x.dtype, "convolution")


OPS.add("_C::selective_scan_fwd", _make_scan(8, 7))
OPS["SelectiveScanFn"] = OPS["_C::selective_scan_fwd"]
