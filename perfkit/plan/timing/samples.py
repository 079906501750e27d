"""Collects the calls of a measured step, and samples of a device's speed by kind and size."""

from collections.abc import Iterable, Sequence
from math import floor, log, sqrt
from typing import NamedTuple

from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.work_analysis import WorkAnalysis
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.plan.target.work import Work, compute_least_time, make_work
from perfkit.plan.timing.efficiency_store import EfficiencySample
from perfkit.trace.model import NONE

# Calls of one class with roofline times within this factor form one sample.
_SIZE = log(2)


class TimedCall(NamedTuple):
    """Equal calls of a step: number, and seconds per call."""

    work: Work
    calls: float
    seconds: float


def collect_calls(engine: WorkAnalysis) -> list[TimedCall]:
    """The calls of a step whose FLOPs and bytes are modeled, without copies over a link and collectives."""
    placed, work = engine.by_op, engine.pieces
    calls = []
    for group, first in enumerate(placed.first.tolist()):
        number, precision = int(work.call[first]), int(placed.precision[group])
        counts = number != NONE and precision != NONE and not placed.estimated[group]
        if not counts or work.kind[first] != WorkKind.WORK or work.step[first] == NONE or not placed.calls[group]:
            continue
        call = work.ops.calls[number]
        unit, dtype = placed.costs.precisions[precision]
        one = make_work(call.call, call.cost._replace(unit=unit))
        if one is not None and placed.seconds[group]:
            count = float(placed.calls[group])
            calls.append(
                TimedCall(one._replace(dtype=dtype), count / engine.parts, float(placed.seconds[group]) / count)
            )
    return calls


def make_samples(calls: Iterable[TimedCall], roofs: Roofs) -> tuple[EfficiencySample, ...]:
    """Samples by op, dtype and size; calls without a roofline time are omitted."""
    together: dict[tuple[object, ...], list[tuple[TimedCall, float]]] = {}
    for call in calls:
        least = compute_least_time(call.work, roofs)
        if least is not None and least.seconds:
            size = log(least.seconds)
            work = call.work
            key = (work.op_class, work.op, work.dtype, work.matrix, least.bound, floor(size / _SIZE))
            together.setdefault(key, []).append((call, log(call.seconds) - size))
    return tuple(_make_sample(some) for some in together.values())


def _make_sample(some: Sequence[tuple[TimedCall, float]]) -> EfficiencySample:
    count, total = sum(call.calls for call, _ in some), sum(call.calls * call.seconds for call, _ in some)

    def mean(values: Iterable[float]) -> float:
        """Mean, weighted by the time of the calls."""
        return sum(call.calls * call.seconds * value for (call, _), value in zip(some, values, strict=True)) / total

    center = mean(ratio for _, ratio in some)
    first = some[0][0].work
    return EfficiencySample(
        op_class=str(first.op_class),
        op=first.op,
        dtype=first.dtype,
        matrix=first.matrix,
        flops=sum(call.calls * call.work.flops for call, _ in some) / count,
        bytes=sum(call.calls * call.work.bytes for call, _ in some) / count,
        calls=count,
        seconds=total / count,
        spread=sqrt(mean((ratio - center) ** 2 for _, ratio in some)),
    )
