"""What torch's autograd does at this moment, by private names that torch 2.9 to 2.14 have."""

from collections.abc import Callable

import torch

is_profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled  # also another's profiler


def is_in_backward() -> bool:
    """True if a backward pass runs on this thread: of a loss, or of a gradient penalty within the forward."""
    return torch._C._current_graph_task_id() != -1
