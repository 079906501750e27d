"""Results that every layer of a forward pass keeps until the pass is over, where no backward pass follows.

Examples are keys and values of a cache, returned hidden states, and tensors that autograd saves where no backward pass
follows. They grow with the number of layers and are not temporaries.
"""

import numpy as np

from perfkit.analysis.memory.allocation_context import BACKWARD, FORWARD, AllocationContext, Mask
from perfkit.analysis.memory.layers import fold_layer_numbers
from perfkit.core.allocations import Allocations, Ints


def find_retained_results(allocations: Allocations, births: AllocationContext) -> Mask:
    """Blocks of forward that outlive its last allocation, of an origin that leaves such in several layers.

    Tensors that only the last layer keeps are not retained: they are its temporaries. Where memory ran out, the rest of
    the pass is unknown.
    """
    forward = births.phase == FORWARD
    if not forward.any() or (allocations.phase == BACKWARD).any() or allocations.failed is not None:
        return np.zeros(len(births.row), np.bool_)
    last = np.full(int(births.visit.max()) + 1, -1, np.int64)
    np.maximum.at(last, births.visit[forward], births.born[forward])
    kept = np.flatnonzero(forward & (births.died > last[births.visit]))
    origin = _number_origins(allocations, births, kept)
    layers = np.unique(np.column_stack((origin, births.module[kept])), axis=0)
    several = np.bincount(layers[:, 0], minlength=1) > 1
    result = np.zeros(len(births.row), np.bool_)
    result[kept[several[origin]]] = True
    return result


def _number_origins(allocations: Allocations, births: AllocationContext, rows: Ints) -> Ints:
    """A number for each op, size, and module without the number of its layer."""
    places: dict[str, int] = {}
    used = np.unique(births.module[rows]).tolist()
    number_of = {
        module: places.setdefault(fold_layer_numbers(allocations.names[module]), len(places)) for module in used
    }
    place = np.asarray([number_of[module] for module in births.module[rows].tolist()], np.int64)
    table = np.column_stack((births.op[rows].astype(np.int64), births.size[rows], place))
    numbers: Ints = np.unique(table, axis=0, return_inverse=True)[1].ravel() if len(rows) else place
    return numbers
