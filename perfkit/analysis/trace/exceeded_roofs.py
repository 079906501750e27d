"""Finds the measured ceilings that GEMMs of a trace exceeded.

Only products count: their FLOPs are exact, while a convolution may take an algorithm of fewer, attention may skip
pairs, and modeled bytes may come from a cache.
"""

from collections.abc import Iterable

from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.trace.roofline.roofline import COMPUTE
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.cost.calls.op_call import ComputeUnit, OpClass
from perfkit.cost.op_class import classify_op
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind

# Of the step: a single short op may be a clock error.
_WEIGHTY = 0.01


def find_exceeded_ceilings(ops: Iterable[OpRow], roofs: Roofs) -> tuple[Ceiling, ...]:
    """The measured ceilings that GEMMs with enough weight exceed (by more than `TOLERANCE`, the difference between two
    good calibrations)."""
    exceeded: list[Ceiling] = []
    for row in ops:
        if not row.above_roof or row.bound != COMPUTE or row.share < _WEIGHTY or row.phase == OUTSIDE:
            continue
        ceiling = roofs.compute(ComputeUnit(row.unit), row.dtype) if classify_op(row.name) == OpClass.MATMUL else None
        if ceiling is not None and ceiling.kind == CeilingKind.MEASURED and ceiling not in exceeded:
            exceeded.append(ceiling)
    return tuple(exceeded)
