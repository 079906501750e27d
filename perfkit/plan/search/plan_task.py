"""Plans a task of a search."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.spec import WorkloadSpec
from perfkit.plan.rehearsal.quiet_libraries import silence_kineto
from perfkit.plan.search.block_estimates import estimate_plan
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, TaskPlan
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import shorten_workload


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
