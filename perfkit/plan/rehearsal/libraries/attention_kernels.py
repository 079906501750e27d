"""Names the kernels of attention of a step planned for a GPU, in whose place the CPU's runs."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import torch
from torch.nn.attention import SDPBackend

# The kernel of attention that is running.
running_kernel: ContextVar[SDPBackend] = ContextVar("running_kernel", default=SDPBackend.FLASH_ATTENTION)

FLASH_FOR_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default
_LOGSUMEXP = 5  # the argument of `_BACKWARD`, and with the output the result of `FLASH_FOR_CPU`

_OPS: Mapping[SDPBackend, str] = {
    SDPBackend.FLASH_ATTENTION: "aten::_scaled_dot_product_flash_attention",
    SDPBackend.EFFICIENT_ATTENTION: "aten::_scaled_dot_product_efficient_attention",
    SDPBackend.CUDNN_ATTENTION: "aten::_scaled_dot_product_cudnn_attention",
}


class AttentionKernels:
    """Remembers the kernel of each forward pass by the storage that backward gets of it."""

    def __init__(self) -> None:
        self._of_storages: dict[int, SDPBackend] = {}

    def find_op(self, func: Any, args: Sequence[Any], result: Any) -> str | None:
        """The op of CUDA for which a call stands; None where it is no fused attention of the CPU.

        A pass whose sums were moved meanwhile, as offloaded ones are, is flash attention's.
        """
        if func is FLASH_FOR_CPU:
            kernel = running_kernel.get()
            self._of_storages[_identify_storage(result[1])] = kernel
            return _OPS[kernel]
        if func is _BACKWARD:
            kernel = self._of_storages.get(_identify_storage(args[_LOGSUMEXP]), SDPBackend.FLASH_ATTENTION)
            return f"{_OPS[kernel]}_backward"
        return None


def _identify_storage(tensor: torch.Tensor) -> int:
    """An id that another storage takes only when this one is gone."""
    number: int = tensor.untyped_storage()._cdata
    return number
