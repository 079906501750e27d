"""Ranges around steps and phases: NVTX for Nsight Systems, record_function for torch's own traces."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import nvtx
import torch

from perfkit.core.record.trace_marks import MARK_PREFIX, STEP_MARK
from perfkit.instruments.autograd_state import is_profiling

DOMAIN = "perfkit"  # of NVTX


@contextmanager
def mark_range(name: str) -> Iterator[None]:
    """A range called `name`.

    Without a tool attached NVTX costs a fraction of a microsecond. record_function costs several, so it is
    used only while torch's profiler is on: timed steps carry no instrument but the clock.
    """
    with nvtx.annotate(name, domain=DOMAIN):
        if is_profiling() or torch._C._len_torch_dispatch_stack():
            with torch.profiler.record_function(name):
                yield
        else:
            yield


def mark_phase(name: str) -> AbstractContextManager[None]:
    """The range of a phase of `core.record.trace_marks.PHASES`."""
    return mark_range(MARK_PREFIX + name)


def mark_step(index: int) -> AbstractContextManager[None]:
    """The range of one optimizer step."""
    return mark_range(f"{STEP_MARK}#{index}")
