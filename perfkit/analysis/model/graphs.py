"""Graphs (CUDA's, HIP's) that a trace replayed."""

from perfkit.spec import Struct


class ReplayedGraph(Struct):
    """A graph, launched `launches` times. Seconds cover all launches in the whole trace.

    Of its `nodes` (kernels, copies and fills of one launch) `joined_nodes` have the op that was called when `capture`
    was recorded, which `basis` told from others; where that is not known, `reason` says why.
    """

    nodes: int
    launches: int
    seconds: float
    joined_nodes: int = 0
    capture: str = ""
    basis: str = ""
    reason: str = ""
