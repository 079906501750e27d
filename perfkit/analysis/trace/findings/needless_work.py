"""Rules about work that another op does for less, or that need not be done in each step."""

from collections.abc import Iterator
from math import prod

from perfkit.analysis.findings.change import remove_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import (
    LATE,
    TraceView,
    format_call_count,
    list_kernels,
    parse_shapes,
    sum_seconds,
)
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.op_class import classify_op

_ONE_HOT = ("aten::one_hot", "aten::scatter_", "aten::scatter")
_SCATTERS = ("aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::scatter_add", "aten::scatter_add_")
_RANDOM = ("normal_", "uniform_", "random_", "randn", "rand", "randint", "bernoulli_", "exponential_", "randperm")
# Ops whose results people read: metrics, logs. Reductions are named by their class.
_READ = ("sort", "argsort", "topk", "histc", "histogram", "bincount", "kthvalue", "median", "_local_scalar_dense")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "logical_and")
_COPIES = ("copy_", "clone", "contiguous", "cat", "_cat", "stack", "repeat", "repeat_interleave", "tile")
_NAN_CHECKS = (
    "aten::ne",
    "aten::isnan",
    "aten::any",
    "aten::_is_any_true",
    "aten::is_nonzero",
    "aten::_local_scalar_dense",
)
_LEAST_CHECKS = 8


def find_one_hot_products(view: TraceView) -> Iterator[RuleResult]:
    """A matrix product with one-hot rows, which an embedding reads from the other matrix."""
    made = {
        shapes[0].dims
        for row in view.select_ops()
        if row.name in _ONE_HOT and (shapes := parse_shapes(row)) and shapes[0].dtype == "int64" and shapes[0].dims
    }
    sizes = {(dims[-1], prod(dims)) for dims in made}
    rows = [
        row
        for row in view.select_ops(OpClass.MATMUL)
        if any(len(shape.dims) > 1 and _is_sized(shape.dims, sizes) for shape in parse_shapes(row))
    ]
    took = sum_seconds(rows)
    if view.get_share(took) < NOTABLE:
        return
    large = [row for row in view.select_ops() if row not in rows and _has_size(row, {size for _, size in sizes})]
    yield view.build_gain(
        "gemm.one_hot",
        "Matrix product with one-hot rows",
        f"products take {view.show_work_time(took)}, making and converting the rows "
        f"{view.show_work_time(sum_seconds(large))}",
        "Index the matrix instead: F.embedding(indices, weight), or weight[indices].",
        took + sum_seconds(large),
        basis="assumes that reading the rows takes no time",
        rows=(*rows, *large),
        change=remove_rows((*rows, *large), joins=True),
        figures={"time_s": took, "rows_s": sum_seconds(large)},
    )


def _is_sized(dims: tuple[int, ...], sizes: set[tuple[int, int]]) -> bool:
    """True for a matrix of such a width and size, or its transpose."""
    return any((width, prod(dims)) in sizes for width in (dims[-1], dims[-2]))


def _has_size(row: OpRow, sizes: set[int]) -> bool:
    copies = classify_op(row.name) in (OpClass.COPY, OpClass.POINTWISE, OpClass.INDEX) or row.name in _ONE_HOT
    return copies and any(shape.numel in sizes for shape in parse_shapes(row))


def find_scattered_products(view: TraceView) -> Iterator[RuleResult]:
    """A product with a matrix that was filled by index in the same step: mostly zeros."""
    made = {
        shapes[0].dims
        for row in view.select_ops()
        if row.phase != "backward"  # where gradients are scattered
        and row.name in _SCATTERS
        and (shapes := parse_shapes(row))
        and len(shapes[0].dims) == 2
    }
    filled = {dims for dims in made if min(dims) > 1}
    both = filled | {dims[::-1] for dims in filled}
    rows = [
        row
        for row in view.select_ops(OpClass.MATMUL)
        if any(shape.dims in both and shape.dtype.startswith(("fp", "bf")) for shape in parse_shapes(row))
    ]
    took = sum_seconds(rows)
    if view.get_share(took) < NOTABLE:
        return
    sizes = {prod(dims) for dims in filled}
    # Products that compute the gradient of that matrix have its size, and no operand of it.
    making = [
        row for row in view.select_ops() if row not in rows and any(shape.numel in sizes for shape in parse_shapes(row))
    ]
    yield view.build_gain(
        "gemm.scattered",
        "Matrix product with a matrix filled by index",
        f"products take {view.show_work_time(took)}, ops on the matrix {view.show_work_time(sum_seconds(making))}",
        "Add rows by index instead (index_add, scatter_add), or multiply with a sparse matrix (torch.sparse).",
        took + sum_seconds(making),
        basis="assumes that adding the rows takes no time",
        rows=(*rows, *making),
        change=remove_rows((*rows, *making), joins=True),
        figures={"time_s": took, "matrix_s": sum_seconds(making)},
    )


def find_inverses(view: TraceView) -> Iterator[RuleResult]:
    """A matrix that is inverted."""
    rows = [row for row in view.select_ops() if "linalg_inv" in row.name or row.name == "aten::inverse"]
    took = sum_seconds(rows)
    if view.get_share(took) < NOTABLE:
        return
    others = [row for row in view.select_ops() if "aten::linalg_" in row.name and row not in rows]
    sizes = {dims for row in rows for shape in parse_shapes(row) if len(dims := shape.dims) > 1}
    others += [
        row
        for row in view.select_ops(OpClass.MATMUL)
        if row.phase == "backward" and all(shape.dims in sizes for shape in parse_shapes(row))
    ]
    yield view.build_gain(
        "linalg.inverse",
        "A matrix is inverted",
        f"inverses take {view.show_work_time(took)}, what belongs to them {view.show_work_time(sum_seconds(others))}",
        "Solve instead: torch.linalg.solve(A, b), or cholesky and cholesky_solve if A is positive definite; the "
        "determinant comes from the same factor.",
        took + sum_seconds(others),
        basis="at most all that is computed for it",
        rows=(*rows, *others),
        change=remove_rows(rows, joins=True),
        removable_s=took + sum_seconds(others),
        figures={"time_s": took},
    )


def find_random_generation(view: TraceView) -> Iterator[RuleResult]:
    """Random numbers that take a part of the step; dropout's have ops of their own."""
    rows = [row for row in view.select_ops() if row.name.removeprefix("aten::") in _RANDOM]
    took = sum_seconds(rows)
    if view.get_share(took) >= COMMON:
        yield view.build_gain(
            "random.generation",
            "Random numbers take a part of the step",
            f"they take {view.show_work_time(took)} in {format_call_count(rows)}: {list_kernels(rows)}",
            "Draw only what is used, on the device that uses it, and in the dtype that is used.",
            took,
            basis="assumes that none are drawn",
            rows=rows,
            change=remove_rows(rows, joins=True),
            figures={"time_s": took, "calls": sum(row.calls for row in rows)},
        )


def find_extra_work(view: TraceView) -> Iterator[RuleResult]:
    """Metrics and logs: reductions, sorts and reads outside of forward, backward, update and loading."""
    if view.trains is not True or not any(row.phase == "forward" for row in view.trace.ops):
        return
    outside = [row for row in view.select_ops() if not row.phase]
    rows = [
        row
        for row in outside
        if classify_op(row.name) == OpClass.REDUCTION or row.name.removeprefix("aten::") in (*_READ, *_COMPARISONS)
    ]
    took = sum_seconds(rows)
    calls = sum(row.calls for row in rows)
    around_s = view.estimate_dispatch_s(calls)
    if view.get_share(took) < COMMON:
        return
    yield view.build_gain(
        "step.metrics",
        "Metrics or logs in each step",
        f"reductions, sorts and reads outside of forward, backward and update take {view.show_work_time(took)} in "
        f"{format_call_count(rows)}: {list_kernels(rows)}",
        "Compute metrics every N steps, in few ops, and read them together.",
        took + around_s,
        basis="with their part of Python and dispatch, by calls",
        rows=rows,
        figures={"time_s": took, "python_s": around_s, "calls": calls},
    )


def find_anomaly_checks(view: TraceView) -> Iterator[RuleResult]:
    """Backward checks each gradient for NaN, as anomaly detection does."""
    rows = [row for row in view.select_ops() if row.phase == "backward" and row.name in _NAN_CHECKS]
    compared = [row for row in rows if row.name in ("aten::ne", "aten::isnan")]
    if sum(row.calls for row in compared) < _LEAST_CHECKS or len({row.name for row in rows}) < 2:
        return
    took, python_s = sum_seconds(rows), view.python_s
    yield view.build_gain(
        "autograd.anomaly_detection",
        "Anomaly detection is on",
        f"backward compares gradients with NaN in {format_call_count(compared)}; these checks take "
        f"{view.show_work_time(took)}, and forward keeps a Python stack of each op",
        "Remove torch.autograd.set_detect_anomaly(True) after debugging.",
        took + python_s,
        basis="the checks, and at most all Python and dispatch: each op formats its stack",
        rows=rows,
        least_s=took,
        scope=(LATE,),
        figures={"time_s": took, "python_s": python_s},
    )


def find_copies(view: TraceView) -> Iterator[RuleResult]:
    """Copies within the memory of a device that change no dtype: clones, concatenations, other layouts."""
    rows = [
        row
        for row in view.select_ops()
        if row.name.removeprefix("aten::") in _COPIES
        and row.phase != "optimizer"
        and len({shape.dtype for shape in parse_shapes(row)}) < 2
    ]
    took = sum_seconds(rows)
    if view.get_share(took) < COMMON:
        return
    yield view.build_gain(
        "copy.materialized",
        "Tensors are copied",
        f"copies within memory take {view.show_work_time(took)} in {format_call_count(rows)}: {list_kernels(rows)}",
        "Use views (expand, not repeat), write into one tensor instead of concatenating, keep one memory format, and "
        "drop clone() and contiguous() where they are not needed.",
        took,
        basis="assumes that no copy is needed",
        rows=rows,
        change=remove_rows(rows, joins=True),
        figures={"time_s": took, "calls": sum(row.calls for row in rows)},
    )
