"""An op call and its cost, as data: the common ground of the live count and of the trace."""

from enum import StrEnum
from typing import NamedTuple


class TensorArg(NamedTuple):
    """A recorded tensor argument: shape and strides in elements, dtype by its short name (`fp32`, `bf16`, `int64`)."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str


Scalar = bool | int | float | str | None
Arg = TensorArg | Scalar | tuple["Arg", ...]


class OpCall(NamedTuple):
    """An op with its inputs in the order of its schema: `aten::mm`, (TensorArg, TensorArg)."""

    name: str
    args: tuple[Arg, ...]


class Unit(StrEnum):
    """The functional unit that bounds an op's arithmetic."""

    MATRIX = "matrix"
    VECTOR = "vector"


class OpCost(NamedTuple):
    """FLOPs and compulsory bytes of a call. None means not modelled; 0 means that there are none.

    `dtype` is that of the operands, which selects the peak. `source` names the formula.
    """

    flops: float | None
    bytes: float | None
    unit: Unit
    dtype: str
    source: str
