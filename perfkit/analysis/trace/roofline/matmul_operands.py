"""The operands of a GEMM among an op's inputs: their sizes, and the contiguous ones."""

from collections.abc import Sequence
from math import prod

from perfkit.analysis.trace.roofline.quantization import MatmulSizes
from perfkit.cost.calls.op_call import Arg, TensorArg

# By an op's name without its namespace: the place of the first operand among the tensors; the second follows it. What
# comes before is added to the product, and what comes after are scales and, of an `out` overload, the result.
FIRST_OPERAND = {
    "mm": 0, "bmm": 0, "matmul": 0, "linear": 0, "_scaled_mm": 0, "_int_mm": 0,
    "addmm": 1, "addmm_": 1, "baddbmm": 1, "baddbmm_": 1, "addbmm": 1, "addbmm_": 1, "_addmm_activation": 1,
}  # fmt: skip
# Whose second operand is the weight as it is stored, (N, K).
_OF_WEIGHTS = ("linear",)

ROW, COLUMN = "row", "column"


def find_first_operand(name: str) -> int | None:
    """The position of the first operand among an op's tensors; None for other ops."""
    return FIRST_OPERAND.get(name.rpartition("::")[2])


def parse_matmul_sizes(name: str, args: Sequence[Arg]) -> MatmulSizes | None:
    """The sizes of a GEMM; None for other ops, and where its operands do not match."""
    first = find_first_operand(name)
    shapes = [arg.shape for arg in args if isinstance(arg, TensorArg)]
    if first is None or len(shapes) < first + 2 or min(map(len, shapes[first : first + 2])) < 2:
        return None
    (*batch, m, k), (*others, inner, n) = shapes[first : first + 2]
    if name.rpartition("::")[2] in _OF_WEIGHTS:  # every row of the input meets the same weight
        batch, m, inner, n = [], prod(batch) * m, n, inner
    return MatmulSizes(prod(batch), m, n, k) if k == inner and batch == others else None


def describe_layout(name: str, args: Sequence[Arg]) -> str:
    """`row,column`: whether the operands (M, K) and (K, N) have the elements of a row or of a column side by side.

    Empty for what is no product, and where a stride does not tell.
    """
    first = find_first_operand(name)
    tensors = [arg for arg in args if isinstance(arg, TensorArg)]
    if first is None or len(tensors) < first + 2:
        return ""
    sides = [_find_contiguous_side(operand) for operand in tensors[first : first + 2]]
    if name.rpartition("::")[2] in _OF_WEIGHTS:
        sides[1] = {ROW: COLUMN, COLUMN: ROW}.get(sides[1], "")
    return ",".join(sides) if all(sides) else ""


def _find_contiguous_side(operand: TensorArg) -> str:
    if len(operand.stride) < 2 or len(operand.stride) != len(operand.shape):
        return ""
    if operand.stride[-1] == 1:
        return ROW
    return COLUMN if operand.stride[-2] == 1 else ""


def list_contiguous_sizes(name: str, shapes: Sequence[tuple[int, ...]], sides: str) -> tuple[int, ...]:
    """The sizes that decide row alignment in memory: the contiguous dims of each operand and of the result.

    Args:
        shapes: of all tensors among the inputs.
        sides: as `describe_layout` tells; where that is empty, N and K, which they are of a layer's product in forward.
    """
    first = find_first_operand(name)
    if first is None or len(shapes) < first + 2 or min(map(len, shapes[first : first + 2])) < 2:
        return ()
    (m, k), second = shapes[first][-2:], shapes[first + 1][-2:]
    n = second[0] if name.rpartition("::")[2] in _OF_WEIGHTS else second[1]
    if not sides:
        return (k, n)
    a, b = sides.split(",")
    return (k if a == ROW else m, n if b == ROW else k, n)
