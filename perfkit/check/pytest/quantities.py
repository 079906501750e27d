"""The figures of a step in a test: what they are called and how they are judged where no threshold is given."""

from perfkit.check.judge.quantities import QUANTITIES, GatedQuantity, JudgingMethod

_OF_CHECKS = {quantity.name: quantity for quantity in QUANTITIES}

# In the order in which they are shown. All of them are the same in every process, so that they are compared exactly.
# What differs from test to test by what ran before (bytes reserved) and what is not exact (any time) is not among them.
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

# Asked for as `calls=` and `kernels=`, for each pattern.
CALLS = GatedQuantity(name="calls", title="calls", unit="", judging=JudgingMethod.EXACT)
KERNELS = GatedQuantity(name="kernels", title="kernels", unit="", judging=JudgingMethod.EXACT)
