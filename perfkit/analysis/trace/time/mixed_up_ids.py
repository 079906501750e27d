"""Graph launches whose kernels have ids that no launch has: CUPTI mixes them up (`perfkit.devices.cupti`)."""

from perfkit.analysis.trace.time.host_times import find_backlog
from perfkit.trace.model import NONE, Ints
from perfkit.trace.ops.ops import Ops


def has_mixed_up_ids(ops: Ops, graphs: Ints) -> bool:
    """True if kernels without a launch match these graph launches, which have no kernels."""
    if not len(graphs):
        return False
    kernels = ops.kernels
    loose = (kernels.launch == NONE) & ~find_backlog(ops)
    begun = ops.trace.start_ns[kernels.event[loose]]
    return int((begun > ops.trace.start_ns[graphs].min()).sum()) >= len(graphs)
