"""How many bytes a forward pass keeps for the backward pass."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile


def saved_tensor_bytes(forward: Callable[[], torch.Tensor], device: torch.device) -> int:
    """Bytes that `forward` leaves allocated on `device` while its loss is alive: what autograd holds for backward.

    By the allocator's own account (its counter on a GPU, torch.profiler's allocation events on a CPU), so that
    what a technique keeps outside of autograd's hooks counts too. What existed before, such as the batch and the
    parameters, does not.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        loss = forward()
        torch.cuda.synchronize(device)
        after = torch.cuda.memory_allocated(device)
        del loss  # not before the second reading: the graph, and what it holds, hangs on it
        return after - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        loss = forward()
    del loss
    return sum(event.self_cpu_memory_usage for event in profiler.key_averages())
