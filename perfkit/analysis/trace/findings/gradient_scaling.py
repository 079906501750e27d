"""The rule about gradients that are clipped more than once per update."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from perfkit.analysis.findings.change import scale_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView, format_call_count, parse_shapes, sum_seconds

# What clip_grad_norm_ calls: the norm of each gradient and of all, a factor from it, and a product with each gradient.
_NORMS = ("aten::linalg_vector_norm", "aten::_foreach_norm")
_FACTOR = ("aten::reciprocal", "aten::clamp")
_PRODUCTS = ("aten::mul_", "aten::_foreach_mul_")
_TWICE = 2.0
_UPDATES = "optimizer"


def find_repeated_clipping(view: TraceView) -> Iterator[RuleResult]:
    """Gradients are scaled by a factor from their norm several times before one update."""
    ops = view.select_ops()
    factors = [row for row in ops if row.name in _FACTOR and row.phase == "" and _is_scalar(row)]
    products = [row for row in ops if row.name in _PRODUCTS and _multiplies_by_scalar(row)]
    updated = _count_updated(row for row in ops if row.phase == _UPDATES and row not in products)
    if {row.name for row in factors} != set(_FACTOR) or not updated:
        return
    times = _count_tensors(products) / updated
    rows = [*factors, *products, *(row for row in ops if row.name in _NORMS and row.phase in ("", _UPDATES))]
    took, around_s = sum_seconds(rows), view.estimate_dispatch_s(sum(row.calls for row in rows))
    part = 1 - 1 / max(times, 1.0)
    if times < _TWICE or view.get_share((took + around_s) * part) < NOTABLE:
        return
    yield view.build_gain(
        "clip.repeated",
        f"Gradients are clipped {times:.0f} times per update",
        f"norms and products take {view.show_work_time(took)} in {format_call_count(rows)}, with their part of Python "
        f"and dispatch {view.show_work_time(took + around_s)}",
        "Clip once, before optimizer.step(), and log the norm that clip_grad_norm_ returns.",
        (took + around_s) * part,
        basis="all but one of these calls, with their part of Python and dispatch",
        rows=rows,
        change=scale_rows(rows, 1 / times),
        removable_s=(took + around_s) * part,
        figures={"times": times, "time_s": took, "python_s": around_s},
    )


def _is_scalar(row: OpRow) -> bool:
    shapes = parse_shapes(row)
    return bool(shapes) and not shapes[0].dims


def _multiplies_by_scalar(row: OpRow) -> bool:
    """True for products of gradients with one tensor of their dtype without dimensions. Numbers of Python, as of weight
    decay, are fp64 there."""
    shapes = parse_shapes(row)
    if len(shapes) < 2 or not shapes[0].dims or shapes[-1].dims or shapes[-1].tensors > 1:
        return False
    return shapes[-1].dtype == shapes[0].dtype and not (row.phase == _UPDATES and shapes[0].dtype == "fp64")


def _count_tensors(rows: Iterable[OpRow]) -> float:
    return sum(row.calls * shapes[0].tensors for row in rows if (shapes := parse_shapes(row)))


def _count_updated(rows: Iterable[OpRow]) -> float:
    """The tensors that an update writes: those of its op with most of them, since each op is called for each."""
    by_name: defaultdict[str, float] = defaultdict(float)
    for row in rows:
        if (shapes := parse_shapes(row)) and shapes[0].dims:
            by_name[row.name] += row.calls * shapes[0].tensors
    return max(by_name.values(), default=0.0)
