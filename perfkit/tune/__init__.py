"""Tuning: finds the techniques that make a workload faster or smaller, and proves each gain by measurement.

Calling `perfkit.tune(...)` calls `perfkit.tune.tune_named_workload.tune_named_workload`.
"""

from perfkit.core.callable_package import make_callable

make_callable(__name__, "perfkit.tune.tune_named_workload:tune_named_workload")
