"""The figures of a step in a test, with titles and default thresholds."""

from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod

_OF_CHECKS = {quantity.name: quantity for quantity in QUANTITIES}

# In display order. All are the same in every process, so they are compared exactly. Excluded are quantities that
# depend on earlier tests (reserved bytes) or are not exact (times).
FIGURES = (
    _OF_CHECKS["peak_allocated"],
    GatedQuantity(
        name="peak_above_start", title="peak above the step's start", unit="bytes", judging=JudgingMethod.EXACT
    ),
    GatedQuantity(
        name="saved_activations", title="saved for backward", unit="bytes", judging=JudgingMethod.EXACT, default="0.5%"
    ),
    _OF_CHECKS["flops"],
    GatedQuantity(name="op_count", title="ops per step", unit="", judging=JudgingMethod.EXACT, default="+0"),
    _OF_CHECKS["kernel_count"],
    _OF_CHECKS["graph_breaks"],
)
BY_NAME = {quantity.name: quantity for quantity in FIGURES}

# Requested per pattern with `calls=` and `kernels=`.
CALLS = GatedQuantity(name="calls", title="calls", unit="", judging=JudgingMethod.EXACT)
KERNELS = GatedQuantity(name="kernels", title="kernels", unit="", judging=JudgingMethod.EXACT)
