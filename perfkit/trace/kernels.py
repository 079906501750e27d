"""What ran on a device, each linked to the op that launched it."""

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.nesting import parents
from perfkit.trace.read import COMPILED_GRAPH, DEVICE_CATEGORIES, NONE, Category, Ints, Trace


class Link(IntEnum):
    """How a kernel's op is known."""

    UNLINKED = 0
    CORRELATION = 1  # of its launch, which lies within the op
    EXTERNAL_ID = 2  # the profiler's id of the op, repeated on the kernel
    FLOW = 3  # an arrow from the launch


@dataclass(frozen=True)
class Kernels:
    """Kernels, copies and fills in the order of time: indices of their events, and of the event of the op.

    `op` is the innermost op around the launch, NONE where neither the launch nor the op was recorded. `launch` is the
    event of the call that started it (several kernels share that of a CUDA graph), NONE where it was not recorded.
    `link` tells how the op was found.
    """

    event: Ints
    op: Ints
    launch: Ints
    link: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.event)


def link_kernels(trace: Trace) -> Kernels:
    """Link what ran on devices to ops: by the correlation of its launch, else by the profiler's id of the op."""
    events = trace.of(*DEVICE_CATEGORIES)
    if not len(events):
        return Kernels(events, events, events, np.empty(0, np.int8))
    host = trace.of(Category.OP, Category.LAUNCH)
    around = parents(trace, host)
    is_op = trace.category[host] == Category.OP
    launched_by: dict[int, int] = {}
    for position in np.flatnonzero(~is_op & (trace.correlation[host] != NONE)).tolist():
        outer = int(around[position])
        while outer != NONE and not is_op[outer]:
            outer = int(around[outer])
        if outer != NONE:
            launched_by[int(trace.correlation[host[position]])] = int(host[outer])
    ops = host[is_op]
    by_id = {
        external: event
        for external, event in zip(trace.external_id[ops].tolist(), ops.tolist(), strict=True)
        if external != NONE
    }
    linked = [
        launched_by.get(correlation, by_id.get(external, NONE) if external != correlation else NONE)
        for correlation, external in zip(
            trace.correlation[events].tolist(), trace.external_id[events].tolist(), strict=True
        )
    ]
    launches = host[~is_op]
    by_correlation = dict(zip(trace.correlation[launches].tolist(), launches.tolist(), strict=True))
    by_correlation.pop(NONE, None)
    correlations = trace.correlation[events].tolist()
    launch = np.asarray([by_correlation.get(each, NONE) for each in correlations], np.int64)
    op = np.asarray(linked, np.int64)
    direct = np.asarray([each in launched_by for each in correlations])
    link = np.where(op == NONE, Link.UNLINKED, np.where(direct, Link.CORRELATION, Link.EXTERNAL_ID)).astype(np.int8)
    return Kernels(events, op, launch, link)


# torch.compile names its kernels by kind and by the ops fused into them.
_COMPILED = re.compile(r"(triton_(poi|red|per|tem|for|mm|unk)_|(graph_\d+_)?(cpp_fused|kernel_cpp))")
_COLLECTIVE_RANGE = ("nccl:", "gloo:", "mpi:", "ucc:", "xccl:")
_COLLECTIVE_KERNEL = re.compile(r"nccl|rccl|msccl", re.IGNORECASE)


def is_compiled_kernel(name: str) -> bool:
    """Whether torch.compile generated this kernel (Triton on a GPU; C++ where inductor profiles its kernels)."""
    return _COMPILED.match(name) is not None


def is_compiled_graph(name: str) -> bool:
    """Whether this is a run of compiled code: what is not recorded beneath it is generated kernels and their glue."""
    return name.startswith(COMPILED_GRAPH)


def communication(trace: Trace) -> Ints:
    """Events during which ranks exchanged data: collective kernels, or a backend's ranges where there are none."""
    kernels = trace.of(Category.KERNEL)
    on_device = [index for index, name in enumerate(trace.names) if _COLLECTIVE_KERNEL.search(name)]
    events = kernels[np.isin(trace.name[kernels], on_device)]
    if len(events):
        return events
    ranges = trace.of(Category.RANGE)
    names = [index for index, name in enumerate(trace.names) if name.startswith(_COLLECTIVE_RANGE)]
    return ranges[np.isin(trace.name[ranges], names)]
