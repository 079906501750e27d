"""Ranges around steps and phases: NVTX for Nsight Systems, record_function for torch's own traces."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import nvtx
import torch

from perfkit.record import MARK_PREFIX, STEP_MARK

DOMAIN = "perfkit"  # of NVTX


@contextmanager
def mark(name: str) -> Iterator[None]:
    """A range called `name`.

    Without a tool attached NVTX costs a fraction of a microsecond. record_function costs several, so it is
    used only while torch's profiler is on: timed steps carry no instrument but the clock.
    """
    with nvtx.annotate(name, domain=DOMAIN):
        if torch._C._autograd._profiler_enabled() or torch._C._len_torch_dispatch_stack():
            with torch.profiler.record_function(name):
                yield
        else:
            yield


def phase(name: str) -> AbstractContextManager[None]:
    """The range of a phase of `perfkit.record.PHASES`."""
    return mark(MARK_PREFIX + name)


def step_mark(index: int) -> AbstractContextManager[None]:
    """The range of one optimizer step."""
    return mark(f"{STEP_MARK}#{index}")
