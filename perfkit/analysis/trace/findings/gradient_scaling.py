"""The rule about gradients that are clipped more than once per update."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from perfkit.analysis.findings.change import scale_rows
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.findings.trace_thresholds import NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView, format_call_count, parse_shapes, sum_seconds

# What clip_grad_norm_ calls: the norm of each gradient and of all, a factor from it, and a product with each gradient.
_NORMS = ("aten::linalg_vector_norm", "aten::_foreach_norm")
_FACTOR = ("aten::reciprocal", "aten::clamp")
_LIST_PRODUCT = "aten::_foreach_mul_"
_PRODUCTS = ("aten::mul_", _LIST_PRODUCT)
_SUMS = ("aten::add_", "aten::_foreach_add_")
_ROUNDING = 1e-6
_TWICE = 2.0
_UPDATES = "optimizer"


def find_repeated_clipping(view: TraceView) -> Iterator[RuleResult]:
    """Gradients are scaled by a factor from their norm several times before one update."""
    ops = view.select_ops()
    factors = [row for row in ops if row.name in _FACTOR and row.phase == "" and _is_scalar(row)]
    if {row.name for row in factors} != set(_FACTOR):
        return
    products = [row for row in ops if row.name in _PRODUCTS and _multiplies_by_scalar(row)]
    norms = [row for row in ops if row.name in _NORMS and row.phase in ("", _UPDATES)]
    updates = [row for row in ops if row.phase == _UPDATES and row not in products]
    times = _count_clips(products, norms, updates)
    rows = [*factors, *products, *norms]
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
    decay, are fp64 there. Traces leave out lists of more than 30 tensors."""
    shapes = parse_shapes(row)
    if row.name == _LIST_PRODUCT and len(shapes) == 1:
        return _is_scalar(row)
    if len(shapes) < 2 or not shapes[0].dims or shapes[-1].dims or shapes[-1].tensors > 1:
        return False
    return shapes[-1].dtype == shapes[0].dtype and not (row.phase == _UPDATES and shapes[0].dtype == "fp64")


def _count_clips(products: Sequence[OpRow], norms: Sequence[OpRow], updates: Sequence[OpRow]) -> float:
    """How often gradients are scaled per update; 0 where that is not known.

    The tensors that are scaled, over those that an update writes. Where the trace left out their lists, the tensors
    whose norms have one norm, over the counters of steps that an update increases.
    """
    updated: defaultdict[str, float] = defaultdict(float)
    for row in updates:
        updated[row.name] += _count_tensors(row)
    if most := max(updated.values(), default=0.0):
        return sum(map(_count_tensors, products)) / most
    counters = sum(row.calls * parse_shapes(row)[0].tensors for row in updates if row.name in _SUMS and _is_scalar(row))
    every = sum(row.calls for row in norms)
    totals = (row for row in norms if abs((_get_length(row) + 1) * row.calls - every) < _ROUNDING * every)
    scaled = next((_get_length(row) * row.calls for row in totals), 0.0)
    return scaled / counters if counters else 0.0


def _get_length(row: OpRow) -> int:
    """The length of a vector; 0 of other tensors."""
    shapes = parse_shapes(row)
    return shapes[0].dims[0] if len(shapes) == 1 and len(shapes[0].dims) == 1 else 0


def _count_tensors(row: OpRow) -> float:
    shapes = parse_shapes(row)
    return row.calls * shapes[0].tensors if shapes and shapes[0].dims else 0.0
