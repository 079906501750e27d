"""Models the copies by which cuDNN turns channels-first tensors around its convolutions.

Its tensor-core kernels take 16-bit images channels-last (cuDNN developer guide, "Tensor layouts": NHWC is recommended).
From channels-first tensors it runs `nchwToNhwcKernel` and `nhwcToNchwKernel` before and after, unless its heuristics
choose a channels-first kernel: so these copies may be left out. Torch passes images on as channels-last where the input
or the weight is (`cudnn_conv_suggest_memory_format`, aten/src/ATen/native/ConvUtils.h).
"""

from collections.abc import Sequence
from typing import Any

import torch

from perfkit.cost.calls.dtypes import BY_NAME
from perfkit.cost.calls.op_call import OpClass
from perfkit.plan.target.work import Work

NAME = "cudnn::nchwToNhwcKernel"
_16_BITS = {torch.bfloat16: "bf16", torch.float16: "fp16"}
_IMAGE_DIMS = 4
# By op, the places of its input, its weight and its groups.
_PLACES = {"aten::convolution": (0, 1, 8), "aten::convolution_backward": (1, 2, 9)}


def make_layout_copy(func: Any, args: Sequence[Any], result: Any) -> Work | None:
    """The copies around a convolution: each turned tensor is read and written once; None if nothing is turned.

    Convolutions of one channel a group have channels-first kernels of their own.
    """
    places = _PLACES.get(func.name().partition(".")[0])
    if places is None:
        return None
    image, weight, groups = (args[place] for place in places)
    dtype = _16_BITS.get(image.dtype)
    if dtype is None or image.dim() != _IMAGE_DIMS or groups == image.shape[1]:
        return None
    if any(each.is_contiguous(memory_format=torch.channels_last) for each in (image, weight)):
        return None
    results = [each for each in (result if isinstance(result, Sequence) else (result,)) if each is not None]
    turned = [each for each in (*args[: places[1]], *results) if each.dim() == _IMAGE_DIMS]
    elements = sum(each.numel() for each in turned if each.shape != weight.shape)
    return Work(OpClass.COPY, dtype, 0.0, 2.0 * elements * BY_NAME[dtype].size, matrix=False, op=NAME)
