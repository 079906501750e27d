"""The number of a graph's node that a kernel stands for, as `Trace.node` has it."""

import numpy as np

from perfkit.trace.model import NONE, Ints

_BITS = 32


def combine_graph_node(node: Ints, graph: Ints) -> Ints:
    """The graph's number, and in the low 32 bits the node's; NONE without a node.

    CUPTI's numbers of nodes (from 1) hold their graph's already; others count within a graph, whose number (NONE where
    it is missing) is beside them.
    """
    combined = np.where(node >> _BITS > 0, node, np.maximum(graph, 0) << _BITS | node)
    return np.where(node > 0, combined, NONE)
