"""torch's precision of fp32 operands: its settings, read and set in a way that works with every supported version.

torch has two sets of switches. The old ones (`torch.set_float32_matmul_precision`, `allow_tf32`) write through to the
new (`fp32_precision`, since 2.9) but not the other way round, and the old getters raise once the two disagree
(aten/src/ATen/Context.cpp, `float32MatmulPrecision`; pytorch#189955). The new getters never raise, whichever switch was
used, and control the kernels. So only these are read.
"""

from typing import Any

import torch

from perfkit.devices.accelerator import is_cuda
from perfkit.devices.ceilings.peak import IEEE, Fp32Settings

_BACKENDS: Any = torch.backends  # its modules have attributes that only they know of


def read_fp32_settings(device: torch.device) -> Fp32Settings:
    """Read the current fp32 precision settings of `device`. On a GPU without units for TF32 everything is `ieee`."""
    if not is_cuda(device):
        cpu = _BACKENDS.mkldnn
        return Fp32Settings(_read_precision(cpu.matmul), _read_precision(cpu.conv), _read_precision(cpu.rnn))
    if not _has_tf32(device):
        return Fp32Settings(IEEE, IEEE, IEEE)
    matmul, cudnn = _read_precision(_BACKENDS.cuda.matmul), _BACKENDS.cudnn
    if not cudnn.enabled:  # then torch's own convolutions and cells call cuBLAS
        return Fp32Settings(matmul, matmul, matmul, has_tf32=True)
    return Fp32Settings(matmul, _read_precision(cudnn.conv), _read_precision(cudnn.rnn), has_tf32=True)


def set_matmul_precision(precision: str) -> None:
    """Multiply matrices of fp32 in `precision` (`ieee`, `tf32`) from now on, on all devices of this process.

    For a process of perfkit's own: where the old switches were used too, their getters may raise afterwards.
    """
    _BACKENDS.cuda.matmul.fp32_precision = precision
    _BACKENDS.mkldnn.matmul.fp32_precision = precision


def _has_tf32(device: torch.device) -> bool:
    """True if the GPU has TF32: NVIDIA's since compute capability 8.0. Of AMD's libraries MIOpen has no TF32, and
    hipBLASLt uses it only if an environment variable requests it; there the kernel's name tells."""
    return torch.version.hip is None and torch.cuda.get_device_capability(device) >= (8, 0)


def _read_precision(switch: Any) -> str:
    setting = str(switch.fp32_precision)
    return IEEE if setting == "none" else setting
