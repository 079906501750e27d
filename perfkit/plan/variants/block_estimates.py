"""Estimates the plan of a model with many equal blocks from those of the same model with few.

FLOPs are affine in the number of blocks. So is the memory at each moment of a step; its peak, the largest of these, is
convex, so that a line through two numbers of blocks is a lower bound beyond them. The step time is nearly affine: large
updates are a little more efficient than small ones.
"""

from collections.abc import Callable

from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, NonTensorMemory, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.fit_search import Trials
from perfkit.core.spec import WorkloadSpec, format_variant_label
from perfkit.measure.schedule import Techniques
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import PlanOne, make_planner
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import count_blocks, shorten_workload

FEWER, MORE = 3, 4  # of two blocks each is at an end
# Two plans of so few blocks take as long as one of about eight.
_LEAST_BLOCKS = 16


def find_estimated_blocks(spec: WorkloadSpec, device: str) -> int | None:
    """The number of a model's blocks where an estimate is worth while; None where plans are short, or not of a number
    of blocks."""
    blocks = count_blocks(spec, device)
    return blocks if blocks is not None and blocks >= _LEAST_BLOCKS else None


def make_estimating_planner(
    request: BenchRequest, target: Target, progress: Callable[[str], None] = lambda _: None
) -> PlanOne:
    """As `make_planner`; variants of a model with many equal blocks are estimated from few of them.

    A variant that cannot act with few blocks is planned whole.
    """
    blocks = find_estimated_blocks(request.workload, target.kind)
    if blocks is None:
        return make_planner(request, target, progress)
    whole = make_planner(request, target)
    few = [
        make_planner(replace(request, workload=shorten_workload(request.workload, target.kind, count)), target)
        for count in (FEWER, MORE)
    ]

    def estimate(techniques: Techniques) -> PlannedVariant:
        fewer, more = (plan(techniques) for plan in few)
        if fewer.reason and fewer.reason == more.reason:
            return more  # whatever the number of blocks
        if fewer.reason or more.reason:
            return whole(techniques)
        return judge_fit(extrapolate_blocks(fewer, more, compute_distance(blocks)), target)

    return Trials(estimate, format_variant_label, lambda planned: progress(planned.name)).try_candidate


def compute_distance(blocks: int) -> float:
    """How many times the distance from `FEWER` to `MORE` so many blocks are away from `FEWER`."""
    return (blocks - FEWER) / (MORE - FEWER)


def extrapolate_blocks(fewer: PlannedVariant, more: PlannedVariant, distance: float) -> PlannedVariant:
    """The variant as many times the distance from `fewer` to `more` away from `fewer`, without parts of its time."""

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
        categories = _extend_categories(fewer.peak_allocated_bytes, more.peak_allocated_bytes, value, distance)
        phase = more.peak_allocated_bytes.phase
        peak = PlannedPeak(value=value, low=low, high=high, phase=phase, categories=categories)
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


def _extend_categories(fewer: PlannedPeak, more: PlannedPeak, peak_bytes: int, distance: float) -> dict[str, int]:
    """The bytes of each category, as `extrapolate_blocks` has the peak, of which they are all parts: what their lines
    leave of it is the largest one's."""
    names = dict.fromkeys((*fewer.categories, *more.categories))
    ends = {name: (fewer.categories.get(name, 0), more.categories.get(name, 0)) for name in names}
    extended = {name: max(0, int(first + distance * (second - first))) for name, (first, second) in ends.items()}
    if extended:
        largest = max(extended, key=extended.__getitem__)
        extended[largest] += peak_bytes - sum(extended.values())
    return extended
