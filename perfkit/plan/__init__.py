"""Memory and time of a training step before it is trained: workloads and techniques on fake tensors.

Called, as `perfkit.plan(...)`, it is `perfkit.plan.plan_workload.plan_workload`.
"""

from perfkit.callable_package import make_callable

make_callable(__name__, "perfkit.plan.plan_workload:plan_workload")
