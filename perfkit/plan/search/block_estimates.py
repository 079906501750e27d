"""Estimates the plan of a model with many equal blocks from those of the same model with few.

FLOPs are affine in the number of blocks. So is the memory at each moment of a step; its peak, the largest of these, is
convex, so that a line through two numbers of blocks is a lower bound beyond them. The step time is nearly affine: large
updates are a little more efficient than small ones.
"""

from collections.abc import Callable

from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.spec import WorkloadSpec
from perfkit.plan.search.search_tasks import TaskPlan
from perfkit.plan.target.target import Target
from perfkit.plan.variants.verdict import judge_fit
from perfkit.workloads.workload_table import count_blocks, shorten_workload

FEWER, MORE = 3, 4  # of two blocks each is at an end
# Two plans of so few blocks take as long as one of about eight.
_LEAST_BLOCKS = 16

# Products of weights: how many FLOPs attention takes depends on its kernel.
_PRODUCTS = ("aten::mm", "aten::addmm")

PlanWorkload = Callable[[WorkloadSpec], PlannedVariant]


def find_estimated_blocks(spec: WorkloadSpec, device: str) -> int | None:
    """The number of a model's blocks where an estimate is worth while; None where plans are short, or not of a number
    of blocks."""
    blocks = count_blocks(spec, device)
    return blocks if blocks is not None and blocks >= _LEAST_BLOCKS else None


def estimate_plan(plan: PlanWorkload, spec: WorkloadSpec, blocks: int, target: Target) -> TaskPlan:
    """The estimated plan of a workload with so many blocks; a whole plan where it cannot act with few."""
    fewer, more = (plan(shorten_workload(spec, target.kind, count)) for count in (FEWER, MORE))
    if fewer.reason or more.reason:
        whole = plan(spec)
        return TaskPlan(whole, _sum_products(whole))
    distance = (blocks - FEWER) / (MORE - FEWER)
    products_s = _sum_products(fewer) + distance * (_sum_products(more) - _sum_products(fewer))
    return TaskPlan(judge_fit(extrapolate_blocks(fewer, more, distance), target), products_s)


def extrapolate_blocks(fewer: PlannedVariant, more: PlannedVariant, distance: float) -> PlannedVariant:
    """The variant as many times the distance from `fewer` to `more` away from `fewer`, without parts and categories."""

    def extend(first: float, second: float) -> float:
        return first + distance * (second - first)

    def extend_interval(first: Interval, second: Interval) -> Interval:
        value, low, high = (extend(getattr(first, end), getattr(second, end)) for end in ("value", "low", "high"))
        # What an allocator keeps free has an upper bound that is not affine: within the limit it is less.
        return Interval(value=max(value, low), low=low, high=max(value, low, high))

    peak, time, flops = None, None, None
    if fewer.peak_allocated_bytes is not None and more.peak_allocated_bytes is not None:
        bounds = extend_interval(fewer.peak_allocated_bytes.bounds, more.peak_allocated_bytes.bounds)
        value, low, high = int(bounds.value), int(bounds.low), int(bounds.high)
        peak = PlannedPeak(value=value, low=low, high=high, phase=more.peak_allocated_bytes.phase, categories={})
    if fewer.step_s is not None and more.step_s is not None:
        total = extend_interval(fewer.step_s.total, more.step_s.total)
        time = StepTime(total=total, parts={}, dominant="", source=more.step_s.source)
    if fewer.flops is not None and more.flops is not None:
        flops = extend(fewer.flops, more.flops)
    outside = extend_interval(fewer.outside_allocator_bytes, more.outside_allocator_bytes)
    return PlannedVariant(
        name=more.name,
        world_size=more.world_size,
        peak_allocated_bytes=peak,
        outside_allocator=(NonTensorMemory(name="outside the allocator", bytes=outside, source="few blocks"),),
        flops=flops,
        step_s=time,
        step_reason=more.step_reason,
    )


def _sum_products(variant: PlannedVariant) -> float:
    """Seconds that the products of weights take at least; 0 where that is not known."""
    rows = (row for row in variant.ops if row.name in _PRODUCTS and row.attainable_s is not None)
    return sum(min(row.attainable_s or 0.0, row.seconds) for row in rows)
