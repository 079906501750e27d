"""Graphs (CUDA's, HIP's) that a trace replayed."""

from perfkit.core.spec import Struct


class ReplayedGraph(Struct):
    """A graph, launched `launches` times. Seconds cover all launches in the whole trace.

    `nodes` are the kernels, copies and fills of one launch. `joined_nodes` of them have the op of the recorded
    `capture`. `basis` is the evidence for this capture; else `reason` says why it is unknown.
    """

    nodes: int
    launches: int
    seconds: float
    joined_nodes: int = 0
    capture: str = ""
    basis: str = ""
    reason: str = ""
