"""An op call and its cost as data, shared by live counts and traces."""

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


class ComputeUnit(StrEnum):
    """The functional unit that bounds an op's arithmetic."""

    MATRIX = "matrix"
    VECTOR = "vector"


class OpClass(StrEnum):
    """The kind of work of an op."""

    MATMUL = "GEMM"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"  # fused
    SOFTMAX = "softmax"
    NORM = "norm"
    LOSS = "loss"
    OPTIMIZER = "optimizer"
    INDEX = "indexing"
    COPY = "copy"
    REDUCTION = "reduction"
    POINTWISE = "elementwise"
    COMPILED = "compiled"
    COMMUNICATION = "communication"
    OTHER = "other"


class OpCost(NamedTuple):
    """FLOPs and compulsory bytes of a call. None means not modeled; 0 means none.

    `dtype` is that of the operands, which selects the peak. `source` names the formula.

    Where what is recorded does not decide how much is done (lengths of packed sequences, experts), `flops` and `bytes`
    are the least that it can be and `most_flops` and `most_bytes` the most; None where the former are exact.
    `unmasked_flops` counts what a kernel leaves out because a mask (causal, sliding window) forbids it: the convention
    of PaLM, appendix B. None where nothing is left out.
    """

    flops: float | None
    bytes: float | None
    unit: ComputeUnit
    dtype: str
    source: str
    most_flops: float | None = None
    most_bytes: float | None = None
    unmasked_flops: float | None = None
