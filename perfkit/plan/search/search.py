"""Searches the combinations of techniques that fit, by plan, for the fastest."""

from collections.abc import Callable, Iterable
from math import inf

from perfkit.analysis.model.plan import ExcludedVariant, PlannedVariant, PlanSearch
from perfkit.plan.search.combinations import Combination
from perfkit.plan.search.exclusions import Exclusion, get_step_seconds
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, SearchTasks, TaskPlan

# Plans tasks, and yields each with its plan. The next is drawn after the plans before it were yielded; when none is
# ready, one may be after the next plan.
PlanEach = Callable[[Iterable[SearchTask]], Iterable[tuple[SearchTask, TaskPlan]]]

TIME, FLOPS = "predicted step time", "FLOPs per step"


def search_combinations(
    plan_each: PlanEach, ranks: int, progress: Callable[[int, SearchTask, PlannedVariant], None], estimates: bool
) -> PlanSearch:
    """Search the compatible combinations.

    Args:
        plan_each: plans tasks, with their fit verdicts.
        ranks: number of ranks; shards need several.
        progress: receives the number of plans that are left at most, and the last one.
        estimates: estimate combinations, and plan the fastest of those that fit whole; otherwise all are planned whole.
    """
    tasks = SearchTasks(ranks, estimates)
    for task, plan in plan_each(tasks):
        tasks.add_plan(task, plan)
        if task.depth is not PlanDepth.PROBE:
            progress(tasks.count_left(), task, plan.variant)
    excluded = tasks.list_exclusions()
    fitting = [tasks.whole[each] for each in tasks.combinations if each in tasks.whole and each not in excluded]
    timed = all(variant.step_s is not None for variant in fitting)
    return PlanSearch(
        fitting=tuple(sorted(fitting, key=_get_step_order if timed else _get_flops_key)),
        ordered_by=TIME if timed else FLOPS,
        combinations=len(tasks.combinations),
        planned=sum(not variant.reason for variant in tasks.whole.values()),
        estimated=tasks.count_estimated(),
        left_out=tasks.left_out,
        excluded=tuple(_describe_excluded(tasks, each, exclusion) for each, exclusion in excluded.items()),
    )


def _describe_excluded(tasks: SearchTasks, combination: Combination, exclusion: Exclusion) -> ExcludedVariant:
    by = "" if exclusion.by is None else tasks.get_label(exclusion.by)
    return ExcludedVariant(
        name=tasks.get_label(combination),
        rule=exclusion.rule,
        by=by,
        step_s=exclusion.step_s,
        reason=exclusion.reason,
    )


def _get_step_order(variant: PlannedVariant) -> float:
    step_s = get_step_seconds(variant)
    return inf if step_s is None else step_s


def _get_flops_key(variant: PlannedVariant) -> tuple[float, float]:
    needed = variant.needed_bytes
    return variant.flops or inf, inf if needed is None else needed.value
