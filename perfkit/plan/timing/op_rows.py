"""Builds table rows and roofline dots of a planned step's ops: work by formula, predicted time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.roofline.roofline import UNKNOWN, RooflineLimit, compute_limits
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.roofline_rows import compute_roof_share
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.plan.rehearsal.step_ops import Issued, StepOp
from perfkit.plan.target.work import Work
from perfkit.plan.timing.efficiencies import Efficiencies

_SOURCE = "modeled"
_FASTER = "measured calls of this size exceed this roof"


class _OpRowKind(NamedTuple):
    """Common properties of a row's calls, which differ in shapes."""

    op: str
    dtype: str
    unit: ComputeUnit


class _OpRowSum(NamedTuple):
    """Sum of a row's calls in a step; `compute_s` is FLOPs over peak, NaN if unknown."""

    calls: int
    flops: float
    bytes: float
    seconds: float
    compute_s: float


def build_op_rows(issued: Sequence[Issued], efficiencies: Efficiencies, step_s: float) -> tuple[OpRow, ...]:
    """The whole step, of `step_s` seconds, and its ops, longest first.

    The time of every op must be known. Collectives count only in the step's time.
    """
    works: dict[_OpRowKind, Counter[Work]] = {}
    for each in issued:
        if isinstance(each, StepOp):
            unit = ComputeUnit.MATRIX if each.work.matrix else ComputeUnit.VECTOR
            works.setdefault(_OpRowKind(each.work.op, each.work.dtype, unit), Counter())[each.work] += 1
    if not works:
        return ()
    sums = {kind: _sum_calls(kind, counted, efficiencies) for kind, counted in works.items()}
    calls, _, moved, seconds, compute_s = (np.array(column, float) for column in zip(*sums.values(), strict=True))
    limits = compute_limits(compute_s, moved, seconds, calls, efficiencies.roofs)
    ops = [_make_op_row(kind, each, limits[row], step_s) for row, (kind, each) in enumerate(sums.items())]
    return _make_step_row(ops, step_s), *sorted(ops, key=lambda row: -row.seconds)


def _sum_calls(kind: _OpRowKind, works: Mapping[Work, int], efficiencies: Efficiencies) -> _OpRowSum:
    seconds = 0.0
    for work, count in works.items():
        predicted = efficiencies.seconds(work)
        assert predicted is not None, "the time of every op is known"
        seconds += count * predicted.value
    flops = sum(count * work.flops for work, count in works.items())
    moved = sum(count * work.bytes for work, count in works.items())
    return _OpRowSum(sum(works.values()), flops, moved, seconds, _compute_s(kind, flops, efficiencies.roofs))


def _compute_s(kind: _OpRowKind, flops: float, roofs: Roofs) -> float:
    """FLOPs of vector units in a dtype without a peak are left out, as their bytes take longer."""
    peak = roofs.compute(kind.unit, kind.dtype)
    if peak is None:
        return np.nan if kind.unit == ComputeUnit.MATRIX else 0.0
    return flops / peak.value


def _make_op_row(kind: _OpRowKind, each: _OpRowSum, limit: RooflineLimit, step_s: float) -> OpRow:
    known = limit.attainable_s is not None
    return OpRow(
        kind="op",
        name=kind.op,
        calls=float(each.calls),
        seconds=each.seconds,
        share=_divide_or_none(each.seconds, step_s) or 0.0,
        flops=each.flops,
        bytes=each.bytes,
        intensity=_divide_or_none(each.flops, each.bytes),
        flops_per_s=_divide_or_none(each.flops, each.seconds),
        bound=limit.bound,
        attainable_s=limit.attainable_s,
        efficiency=compute_roof_share(limit.attainable_s, each.seconds),
        cost_source=_SOURCE,
        unit=kind.unit.value,
        dtype=kind.dtype,
        level=limit.level,
        above_roof=limit.above_roof,
        efficiency_reason=_FASTER if limit.above_roof else "" if known else f"no roofline for {kind.dtype}",
    )


def _make_step_row(ops: Sequence[OpRow], step_s: float) -> OpRow:
    """In the dtype of most of its FLOPs, bound by what bounds most of its least time."""
    flops, moved = sum(op.flops or 0.0 for op in ops), sum(op.bytes or 0.0 for op in ops)
    bounds: dict[str, float] = {}
    for op in ops:
        if op.attainable_s is not None:
            bounds[op.bound] = bounds.get(op.bound, 0.0) + min(op.attainable_s, op.seconds)
    most = max(ops, key=lambda op: op.flops or 0.0)
    # Ops without a roof have no savings.
    rest = sum(op.seconds for op in ops if op.attainable_s is None)
    attainable_s = sum(bounds.values()) + rest if bounds else None
    return OpRow(
        kind="step",
        name="step",
        calls=1.0,
        seconds=step_s,
        share=1.0,
        flops=flops,
        bytes=moved,
        intensity=_divide_or_none(flops, moved),
        flops_per_s=_divide_or_none(flops, step_s),
        bound=max(bounds, key=bounds.__getitem__, default=UNKNOWN),
        attainable_s=attainable_s,
        efficiency=compute_roof_share(attainable_s, step_s),
        cost_source=_SOURCE,
        unit=most.unit,
        dtype=most.dtype,
    )


def _divide_or_none(amount: float, by: float) -> float | None:
    return amount / by if by else None
