"""Nodes of graphs, whose numbers hold their graph's or stand beside it."""

import numpy as np

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.graph_nodes import combine_graph_node


def test_a_number_that_holds_its_graph_stays() -> None:
    node = np.asarray([0, NONE, 3, 3, 5 << 32 | 3, 5 << 32 | 3])
    graph = np.asarray([7, 7, NONE, 7, 7, NONE])
    assert combine_graph_node(node, graph).tolist() == [NONE, NONE, 3, 7 << 32 | 3, 5 << 32 | 3, 5 << 32 | 3]
