"""Plans the memory and time of a training step, with workloads and techniques on fake tensors.

Calling `perfkit.plan(...)` calls `perfkit.plan.plan_workload.plan_workload`.
"""

from perfkit.core.callable_package import make_callable

make_callable(__name__, "perfkit.plan.plan_workload:plan_workload")
