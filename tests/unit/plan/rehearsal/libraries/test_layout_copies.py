"""The bytes by which channels-first images are turned around convolutions, by hand."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.libraries.layout_copies import NAME
from perfkit.plan.rehearsal.step_ops import StepOp, StepOps

IMAGES, OUTPUTS = 2 * 16 * 8 * 8, 2 * 32 * 8 * 8


def turned_bytes(
    dtype: torch.dtype = torch.bfloat16,
    layout: torch.memory_format = torch.contiguous_format,
    groups: int = 1,
    *,
    turns_images: bool = True,
) -> list[float]:
    """Of the forward and the backward pass of a convolution of 16 channels into 32."""
    with FakeTensorMode(), StepOps(turns_images=turns_images) as ops:
        images = torch.empty(2, 16, 8, 8, dtype=dtype, requires_grad=True)
        weight = torch.empty(32, 16 // groups, 3, 3, dtype=dtype, requires_grad=True)
        F.conv2d(images, weight.to(memory_format=layout), padding=1, groups=groups).sum().backward()
    copies = [each for each in ops.issued if isinstance(each, StepOp) and each.within]
    assert {each.work.op for each in copies} <= {NAME}
    return [each.work.bytes for each in copies]


def test_all_images_are_read_and_written_once_for_each_pass() -> None:
    """Backward turns the images and the gradient of the outputs, and the gradient of the images back."""
    expected = [2 * 2 * (IMAGES + OUTPUTS), 2 * 2 * (2 * IMAGES + OUTPUTS)]
    assert turned_bytes() == turned_bytes(torch.float16) == expected


@pytest.mark.parametrize(
    "copies",
    [
        lambda: turned_bytes(layout=torch.channels_last),
        lambda: turned_bytes(torch.float32),
        lambda: turned_bytes(groups=16),
        lambda: turned_bytes(turns_images=False),
    ],
)
def test_nothing_is_turned(copies: object) -> None:
    assert callable(copies)
    assert copies() == []
