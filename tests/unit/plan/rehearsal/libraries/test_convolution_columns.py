"""The columns of convolutions that oneDNN does not take, by hand."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.plan.rehearsal.libraries.convolution_columns import NAME
from perfkit.plan.rehearsal.step_ops import StepOp, StepOps

ELEMENTS = 2 * (4 * 6 * 6) * 3 * 27  # positions of two samples, channels, kernel


def column_bytes(dtype: torch.dtype, *, enabled: bool = True, on_cpu: bool = True) -> list[float]:
    """Of the forward and the backward pass of a 3-d convolution of two samples."""
    with torch.backends.mkldnn.flags(enabled=enabled), FakeTensorMode(), StepOps(on_cpu=on_cpu) as ops:
        images = torch.empty(2, 3, 4, 6, 6, dtype=dtype, requires_grad=True)
        weight = torch.empty(5, 3, 3, 3, 3, dtype=dtype, requires_grad=True)
        F.conv3d(images, weight, padding=1).sum().backward()
    return [each.work.bytes for each in ops.issued if isinstance(each, StepOp) and each.work.op == NAME]


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.float64, 8)])
def test_columns_are_written_and_read_for_outputs_and_each_gradient(dtype: torch.dtype, size: int) -> None:
    assert column_bytes(dtype, enabled=False) == [2 * size * ELEMENTS, 2 * 2 * size * ELEMENTS]


def test_what_onednn_takes_has_no_columns() -> None:
    assert column_bytes(torch.float32) == []
    assert column_bytes(torch.float64) == [2 * 8 * ELEMENTS, 2 * 2 * 8 * ELEMENTS]  # which it never takes


def test_a_gpu_has_paths_of_its_own() -> None:
    assert column_bytes(torch.float64, on_cpu=False) == []
