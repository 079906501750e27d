"""Decides whether a traced program trains, from its ops, ranges and kernels."""

import re
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from perfkit.trace.event_names import EventNames, map_names
from perfkit.trace.model import Category
from perfkit.trace.ops.ops import Ops

# A gradient is computed or an optimizer steps: names of torch, XLA and TensorFlow, and of kernels.
_TRAINING = re.compile(
    r"autograd::engine|AccumulateGrad|\w*Backward\d*$|\w+::\w*_backward|Optimizer\.(step|zero_grad)#"
    r"|(?!.*forward).*(transpose\(jvp|gradient_tape|[Bb]ackprop|_backward_|dgrad|wgrad|_bwd_|FusedAdam|fused_adam)"
)
# Ops of a model: without any, a trace does not show what the program does.
_OF_MODEL = re.compile(
    r"aten::(linear|matmul|mm|addmm|bmm|baddbmm|\w*conv\w*|\w*scaled_dot_product\w*|embedding|\w*norm|gelu|relu_?|silu|"
    r"_?softmax)$"
)
# Ops and kernels of layers that behave otherwise in training: dropout draws a mask, batch norm computes statistics.
_IN_TRAINING = re.compile(
    r"aten::(native_dropout|_fused_dropout|_batch_norm_with_update)$"
    r"|.*(bn_fw_tr_|batch_norm_collect_statistics|fused_dropout_kernel)"
)
_IN_EVALUATION = re.compile(r"aten::_batch_norm_no_update$|.*bn_fw_inf_")
# The position of the argument that tells training from evaluation.
_MODE_ARGUMENTS = {
    "aten::dropout": 2,
    "aten::feature_dropout": 2,
    "aten::batch_norm": 5,
    "aten::_batch_norm_impl_index": 5,
    "aten::cudnn_batch_norm": 5,
    "aten::miopen_batch_norm": 5,
    "aten::native_batch_norm": 5,
}
_NAMED = (Category.OP, Category.RANGE, Category.KERNEL, Category.GPU_RANGE)
_LISTS = msgspec.json.Decoder(list[object])


def find_training(ops: Ops) -> bool | None:
    """True if gradients are computed or an optimizer steps, False if the program only infers, None if not known.

    A trace without either may show the forward part of a training step. It does not if autograd records no graph, or if
    norms and dropout are in evaluation; layers in training leave it open.
    """
    trace = ops.trace
    named = EventNames.from_events(trace, trace.select_events(*_NAMED))
    if any(_TRAINING.match(trace.names[index]) for index in named.occurring):
        return True
    names = [trace.names[index] for index in named.occurring]
    if not any(map(_OF_MODEL.match, names)):
        return None
    modes = {*_list_modes(ops), *_list_named_modes(names)}
    if True in modes or (has_recorded_graph(ops) and False not in modes):
        return None
    return False


def has_recorded_graph(ops: Ops) -> bool:
    """True if autograd recorded nodes for a backward pass: its number, which each op repeats, rises with every node."""
    numbers = ops.trace.sequence[ops.event]
    numbers = numbers[numbers >= 0]
    return bool(len(numbers)) and int(numbers.max()) > int(numbers.min())


def _list_modes(ops: Ops) -> Iterator[bool]:
    """Whether layers that behave otherwise in training are in training, for each distinct call that tells."""
    trace = ops.trace
    calls, positions = map_names(trace, ops.event, _MODE_ARGUMENTS.get)
    distinct = np.unique(np.stack([trace.name[calls], trace.signature[calls]]), axis=1)
    for name, signature in distinct.T.tolist():
        position = positions[name]
        if signature < 0:
            continue
        mode = _get_argument(trace.signatures[signature].concrete, position)
        if mode in ("True", "False"):
            yield mode == "True"


def _list_named_modes(names: Sequence[str]) -> Iterator[bool]:
    """The same by names that occur in one mode alone."""
    for name in names:
        if _IN_TRAINING.match(name):
            yield True
        elif _IN_EVALUATION.match(name):
            yield False


def _get_argument(concrete: bytes, position: int) -> object:
    try:
        values = _LISTS.decode(concrete)
    except msgspec.DecodeError:
        return None
    return values[position] if position < len(values) else None
