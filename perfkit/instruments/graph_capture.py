"""Detects the capture of a CUDA graph: work recorded or queried then becomes part of the graph, or invalidates it."""

import torch

from perfkit.devices.accelerator import is_cuda


def is_capturing(device: torch.device) -> bool:
    """True if this thread's current stream on `device` (default: the current device) is being captured.

    torch asks the current device only, which need not be the model's. It answers without making a context where the
    device has none (`at::cuda::currentStreamCaptureStatus`), and `torch.cuda.device` restores the device before without
    making one either, so that a GPU that the program does not use stays untouched.
    """
    if not torch.cuda.is_initialized():
        return False
    if torch.cuda.is_current_stream_capturing():
        return True
    if not is_cuda(device) or device.index in (None, torch.cuda.current_device()):
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()
