"""Which op of CUDA an attention of the CPU stands for, forward and backward."""

import pytest
import torch
from torch.nn.attention import SDPBackend

from perfkit.plan.rehearsal.libraries.attention_kernels import FLASH_FOR_CPU, AttentionKernels, running_kernel

SDPA = "aten::_scaled_dot_product_"
BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def run_forward(kernels: AttentionKernels, kernel: SDPBackend) -> tuple[str | None, torch.Tensor]:
    """The op's name, and the sums that backward gets."""
    sums = torch.empty(3)
    chosen = running_kernel.set(kernel)
    try:
        return kernels.find_op(FLASH_FOR_CPU, (), (torch.empty(2), sums)), sums
    finally:
        running_kernel.reset(chosen)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (SDPBackend.FLASH_ATTENTION, "flash_attention"),
        (SDPBackend.EFFICIENT_ATTENTION, "efficient_attention"),
        (SDPBackend.CUDNN_ATTENTION, "cudnn_attention"),
    ],
)
def test_backward_is_of_the_kernel_that_ran_forward(kernel: SDPBackend, name: str) -> None:
    kernels = AttentionKernels()
    forward, sums = run_forward(kernels, kernel)
    _other = run_forward(kernels, SDPBackend.FLASH_ATTENTION)
    given = torch.empty(2)
    assert forward == f"{SDPA}{name}"
    assert kernels.find_op(BACKWARD, (given,) * 5 + (sums.view(3, 1),), None) == f"{SDPA}{name}_backward"


def test_sums_that_were_moved_are_those_of_flash_attention_and_other_ops_have_no_kernel() -> None:
    kernels = AttentionKernels()
    _forward, sums = run_forward(kernels, SDPBackend.CUDNN_ATTENTION)
    given = torch.empty(2)
    assert kernels.find_op(BACKWARD, (given,) * 5 + (sums.clone(),), None) == f"{SDPA}flash_attention_backward"
    assert kernels.find_op(torch.ops.aten.mm.default, (), given) is None
