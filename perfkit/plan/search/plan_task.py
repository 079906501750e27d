"""Plans a task of a search."""

from collections.abc import Callable

from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.spec import WorkloadSpec
from perfkit.plan.rehearsal.quiet_libraries import silence_kineto
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, TaskPlan
from perfkit.plan.target.target import Target
from perfkit.plan.variants.block_estimates import FEWER, MORE, compute_distance, extrapolate_blocks
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import shorten_workload

# Products of weights: how many FLOPs attention takes depends on its kernel.
_PRODUCTS = ("aten::mm", "aten::addmm")

PlanWorkload = Callable[[WorkloadSpec], PlannedVariant]


def plan_task(request: BenchRequest, target: Target, blocks: int | None, task: SearchTask) -> TaskPlan:
    """The plan of a task, without the account of the memory and the ops, which a search does not show.

    Whether techniques can act is seen with few of the model's blocks; the whole model confirms that they cannot, and
    says why. `blocks` is the number of the model's blocks, for estimates.
    """
    silence_kineto()

    def plan(spec: WorkloadSpec) -> PlannedVariant:
        asked = replace(request, workload=spec)
        return plan_variant(schedule_run(asked, task.techniques, target), target)

    spec = request.workload
    if task.depth is PlanDepth.ESTIMATE:
        assert blocks is not None, "estimates are of a number of blocks"
        planned = estimate_plan(plan, spec, blocks, target)
    else:
        short = shorten_workload(spec, target.kind) if task.depth is PlanDepth.PROBE else spec
        variant = plan(short)
        if variant.reason and short != spec:
            variant = plan(spec)
        planned = TaskPlan(variant)
    return planned._replace(variant=replace(planned.variant, memory=None, ops=()))


def estimate_plan(plan: PlanWorkload, spec: WorkloadSpec, blocks: int, target: Target) -> TaskPlan:
    """The estimated plan of a workload with so many blocks; a whole plan where it cannot act with few."""
    fewer, more = (plan(shorten_workload(spec, target.kind, count)) for count in (FEWER, MORE))
    if fewer.reason or more.reason:
        whole = plan(spec)
        return TaskPlan(whole, _sum_products(whole))
    distance = compute_distance(blocks)
    products_s = _sum_products(fewer) + distance * (_sum_products(more) - _sum_products(fewer))
    return TaskPlan(judge_fit(extrapolate_blocks(fewer, more, distance), target), products_s)


def _sum_products(variant: PlannedVariant) -> float:
    """Seconds that the products of weights take at least; 0 where that is not known."""
    rows = (row for row in variant.ops if row.name in _PRODUCTS and row.attainable_s is not None)
    return sum(min(row.attainable_s or 0.0, row.seconds) for row in rows)
