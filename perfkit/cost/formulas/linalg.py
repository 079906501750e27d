"""Decompositions and solvers: leading terms of the textbook algorithms (Golub and Van Loan, Matrix Computations).

A product of n x n matrices is 2 n^3 on this scale. Iterative ones (eigenvalues, singular values) depend on the data:
the usual number of iterations is taken.
"""

import math
from collections.abc import Callable

from perfkit.cost.calls.args import (
    Args,
    Formula,
    UnmodeledError,
    count_output_bytes,
    count_read_bytes,
    get_tensor,
    make_vector_cost,
    numel,
)
from perfkit.cost.calls.op_call import OpClass, OpCost, TensorArg
from perfkit.cost.calls.op_family import OpFamily

OPS = OpFamily(OpClass.OTHER)

_SOURCE = "linear algebra"
_PIVOT = 4  # bytes of an int32 pivot, which LAPACK keeps for every row


def _get_matrix_sizes(x: TensorArg) -> tuple[int, int, int]:
    """(number, rows, columns)."""
    if len(x.shape) < 2:
        raise UnmodeledError("no matrix")
    return math.prod(x.shape[:-2]), x.shape[-2], x.shape[-1]


def _make_square(flops: Callable[[int], float], outputs: int = 1, pivots: bool = False) -> Formula:
    """op(A): `outputs` further matrices of the same size are written."""

    def formula(args: Args) -> OpCost:
        x = get_tensor(args, 0)
        batch, _, n = _get_matrix_sizes(x)
        nbytes = (
            count_read_bytes(x)
            + outputs * count_output_bytes(numel(x), x.dtype)
            + (_PIVOT * batch * n if pivots else 0)
        )
        return make_vector_cost(batch * flops(n), nbytes, x.dtype, _SOURCE)

    return formula


def _make_solve(
    flops: Callable[[int, int], float], matrix_at: int = 0, right_at: int = 1, factors: bool = False
) -> Formula:
    """Make the formula of op(A, B) for n x n and n x k; `factors` if the decomposition of A is also written."""

    def formula(args: Args) -> OpCost:
        a, b = get_tensor(args, matrix_at), get_tensor(args, right_at)
        batch, _, n = _get_matrix_sizes(a)
        columns = numel(b) // max(batch * n, 1)
        kept = count_output_bytes(numel(a), a.dtype) + _PIVOT * batch * n if factors else 0.0
        nbytes = count_read_bytes(a, b) + count_output_bytes(numel(b), b.dtype) + kept
        return make_vector_cost(batch * flops(n, columns), nbytes, a.dtype, _SOURCE)

    return formula


@OPS.formula("linalg_qr")
def _cost_qr(args: Args) -> OpCost:
    """linalg_qr(A, mode), reduced: Householder 2 m n^2 - 2/3 n^3, and as much to form Q."""
    x = get_tensor(args, 0)
    batch, rows, columns = _get_matrix_sizes(x)
    m, n = max(rows, columns), min(rows, columns)
    outputs = batch * (rows * n + n * columns)
    flops = batch * 2 * (2 * m * n**2 - 2 / 3 * n**3)
    return make_vector_cost(flops, count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE)


@OPS.formula("_linalg_svd")
def _cost_svd(args: Args) -> OpCost:
    """_linalg_svd(A, full_matrices, compute_uv): 6 m n^2 + 20 n^3 with vectors, 2 m n^2 + 2 n^3 without."""
    x = get_tensor(args, 0)
    batch, rows, columns = _get_matrix_sizes(x)
    m, n = max(rows, columns), min(rows, columns)
    vectors = len(args) <= 2 or args[2] is not False
    flops = 6 * m * n**2 + 20 * n**3 if vectors else 2 * m * n**2 + 2 * n**3
    outputs = batch * (n + (rows * n + n * columns if vectors else 0))
    return make_vector_cost(batch * flops, count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE)


@OPS.formula("_linalg_eigh")
def _cost_eigh(args: Args) -> OpCost:
    """_linalg_eigh(A, UPLO, compute_v): 9 n^3 with vectors, 4/3 n^3 without."""
    x = get_tensor(args, 0)
    batch, _, n = _get_matrix_sizes(x)
    vectors = len(args) <= 2 or args[2] is not False
    outputs = batch * n + (numel(x) if vectors else 0)
    flops = batch * (9 if vectors else 4 / 3) * n**3
    return make_vector_cost(flops, count_read_bytes(x) + count_output_bytes(outputs, x.dtype), x.dtype, _SOURCE)


@OPS.formula("_linalg_det _linalg_slogdet")
def _cost_determinant(args: Args) -> OpCost:
    """_linalg_det(A) -> result, LU, pivots; slogdet gives a sign, too."""
    x = get_tensor(args, 0)
    batch, _, n = _get_matrix_sizes(x)
    nbytes = count_read_bytes(x) + count_output_bytes(numel(x) + batch, x.dtype) + _PIVOT * batch * n
    return make_vector_cost(batch * 2 / 3 * n**3, nbytes, x.dtype, _SOURCE)


@OPS.formula("linalg_cross")
def _cost_cross(args: Args) -> OpCost:
    """linalg_cross(self, other): 6 products and 3 differences for 3 elements."""
    a, b = get_tensor(args, 0), get_tensor(args, 1)
    elements = max(numel(a), numel(b))
    return make_vector_cost(
        3 * elements, count_read_bytes(a, b) + count_output_bytes(elements, a.dtype), a.dtype, _SOURCE
    )


@OPS.formula("_cdist_forward _euclidean_dist")
def _cost_cdist(args: Args) -> OpCost:
    """_cdist_forward(x1, x2, p, ...): subtract, power, add for every pair of rows and every column."""
    a, b = get_tensor(args, 0), get_tensor(args, 1)
    batch, rows, width = _get_matrix_sizes(a)
    pairs = batch * rows * b.shape[-2]
    return make_vector_cost(
        3 * pairs * width, count_read_bytes(a, b) + count_output_bytes(pairs, a.dtype), a.dtype, "distances"
    )


@OPS.formula("_cdist_backward")
def _cost_cdist_backward(args: Args) -> OpCost:
    """_cdist_backward(grad, x1, x2, p, cdist): the gradient of x1; 4 for every pair and column."""
    grad, a = get_tensor(args, 0), get_tensor(args, 1)
    nbytes = count_read_bytes(grad, a, get_tensor(args, 2), get_tensor(args, 4)) + count_output_bytes(numel(a), a.dtype)
    return make_vector_cost(4 * numel(grad) * a.shape[-1], nbytes, a.dtype, "distances")


@OPS.formula("_pdist_forward")
def _cost_pdist(args: Args) -> OpCost:
    """_pdist_forward(self, p): each pair of rows once."""
    x = get_tensor(args, 0, 2)
    pairs = x.shape[0] * (x.shape[0] - 1) // 2
    return make_vector_cost(
        3 * pairs * x.shape[1], count_read_bytes(x) + count_output_bytes(pairs, x.dtype), x.dtype, "distances"
    )


OPS.add("cholesky linalg_cholesky_ex", _make_square(lambda n: n**3 / 3))
OPS.add("cholesky_inverse", _make_square(lambda n: 2 / 3 * n**3))
OPS.add("linalg_inv_ex", _make_square(lambda n: 2 * n**3))
OPS.add("linalg_lu_factor_ex", _make_square(lambda n: 2 / 3 * n**3, pivots=True))
OPS.add("_linalg_solve_ex", _make_solve(lambda n, k: 2 / 3 * n**3 + 2 * n**2 * k, factors=True))
OPS.add("linalg_solve_triangular", _make_solve(lambda n, k: n**2 * k))
OPS.add("triangular_solve", _make_solve(lambda n, k: n**2 * k, matrix_at=1, right_at=0))
OPS.add("cholesky_solve", _make_solve(lambda n, k: 2 * n**2 * k, matrix_at=1, right_at=0))
OPS.add("linalg_lu_solve", _make_solve(lambda n, k: 2 * n**2 * k, right_at=2))
