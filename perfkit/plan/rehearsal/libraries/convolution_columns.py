"""Models the columns that torch's own convolutions on CPUs make: where oneDNN does not take a convolution.

Torch asks oneDNN for fp32 convolutions of several samples or of large ones, and for 16 bits where the processor has
AVX-512 (`use_mkldnn`, aten/src/ATen/native/Convolution.cpp). Other convolutions copy the inputs of every output
position into a matrix of columns and multiply it (`slow_conv3d_forward_cpu`: `unfold3d_copy`), so they move kernel
size x channels elements a position, and backward does so for each gradient.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from perfkit.cost.calls.op_call import OpClass
from perfkit.plan.target.work import Work

NAME = "aten::unfold_copy"
_OWN = ("Slow2d", "Slow3d", "SlowDilated2d", "SlowDilated3d", "SlowTranspose2d", "SlowTranspose3d")
_FORWARD, _BACKWARD = "aten::convolution", "aten::convolution_backward"
_GRADIENTS = 2  # of the input and of the weight


def make_columns(func: Any, args: Sequence[Any], result: Any) -> Work | None:
    """The columns of a convolution on fake CPU tensors, written and read once; None where oneDNN takes it."""
    name = func.name().partition(".")[0]
    if name == _FORWARD:
        image, weight, rest, outputs, times = args[0], args[1], args[3:9], result, 1
    elif name == _BACKWARD:
        image, weight, rest, outputs, times = args[1], args[2], args[4:10], args[0], _GRADIENTS
    else:
        return None
    backend = torch._C._select_conv_backend(image, weight, None, *rest)
    if str(backend).rpartition(".")[2] not in _OWN:
        return None
    positions = math.prod(outputs.shape[2:]) * outputs.shape[0]
    elements = positions * image.shape[1] * math.prod(weight.shape[2:])
    return Work(OpClass.COPY, "", 0.0, 2.0 * times * elements * image.element_size(), matrix=False, op=NAME)
