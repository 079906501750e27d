"""What a call of an op does, as far as its time depends on it."""

from typing import NamedTuple

from perfkit.analysis.trace.op_class import op_class
from perfkit.cost.call import OpCall, OpCost, Unit
from perfkit.cost.fp32_products import computed_in
from perfkit.devices.peak import Fp32Settings


class Work(NamedTuple):
    """One call: the class of its op, FLOPs and compulsory bytes.

    `dtype` is what it is computed in, `matrix` whether on the units for matrices: both select the peak.
    """

    op_class: str
    dtype: str
    flops: float
    bytes: float
    matrix: bool


def work_of(call: OpCall, cost: OpCost, fp32: Fp32Settings | None = None) -> Work | None:
    """The work of a call with its cost; None where its bytes, or the FLOPs of a matrix product, are not modelled.

    Vector work of unknown FLOPs counts as none, as its bytes take longer. `fp32` are the settings of a GPU, None where
    products of fp32 are computed in fp32.
    """
    matrix = cost.unit == Unit.MATRIX
    if cost.bytes is None or (matrix and cost.flops is None):
        return None
    dtype = computed_in(call.name, cost.dtype, fp32) if matrix else cost.dtype
    return Work(op_class(call.name), dtype, cost.flops or 0.0, cost.bytes, matrix)
