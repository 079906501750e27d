"""The CPU's time for compiled code: each call of a graph, and each kernel that the graph's Python code launches.

Measured for code of Inductor: 6.8 us for a kernel without arguments and 9.1 us with 19, and 33 to 44 us for a call of a
graph with one kernel, of which the guards take most (meta-pytorch/tritonbench, pull request 1017, on a GB200). A CUDA
graph has the call alone. Bounds are as wide as those of eager ops that were measured on another host.
"""

from perfkit.analysis.model.plan import Interval
from perfkit.plan.timing.efficiencies import ANOTHER_HOST


def _widen(low: float, high: float) -> Interval:
    return Interval(value=(low + high) / 2, low=low / ANOTHER_HOST, high=high * ANOTHER_HOST)


_KERNEL_S = _widen(6.8e-6, 9.1e-6)
GRAPH_CALL_S = _widen(33e-6 - 6.8e-6, 44e-6 - 6.8e-6)


def compute_kernel_host_s(eager: Interval) -> Interval:
    """CPU time to launch a compiled kernel: at most that of an eager op, which does more."""
    return Interval(
        value=min(_KERNEL_S.value, eager.value),
        low=min(_KERNEL_S.low, eager.low),
        high=min(_KERNEL_S.high, eager.high),
    )
