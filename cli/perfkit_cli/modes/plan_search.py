"""`perfkit plan --search`: finds the combinations of techniques that fit, the fastest first."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import inf

import psutil
from rich.console import Console

from perfkit.analysis.model.plan import EXCLUSION_RULES, PlannedVariant, PlanSearch
from perfkit.analysis.parallel.worker_processes import run_in_processes
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.units import format_bytes, format_seconds, format_significant
from perfkit.devices.machine.machine import count_available_cores
from perfkit.plan.search.plan_task import plan_task
from perfkit.plan.search.search import search_combinations
from perfkit.plan.search.search_tasks import PlanDepth, SearchTask, TaskPlan
from perfkit.plan.target.target import Target
from perfkit.plan.variants.block_estimates import find_estimated_blocks
from perfkit.store.request import BenchRequest
from perfkit_cli.output.listing import align_columns

_PROCESS_BYTES = 2**31  # plans of an 8B model take 1.3 GiB
_LONG_S = 3.0  # of CPU time; starting a process takes as long


def run_search(request: BenchRequest, target: Target, console: Console) -> PlanSearch:
    """The combinations that fit; the console shows the progress of the search."""
    if target.limit_bytes is None:
        raise UsageError(
            "--search needs a memory limit; give one, such as --memory 6GiB or --gpu h100-80g",
            id="usage.missing_option",
        )
    remaining = _Remaining()
    blocks = find_estimated_blocks(request.workload, target.kind)
    with console.status("planning each technique alone") as status:

        def show_progress(left: int, task: SearchTask, planned: PlannedVariant) -> None:
            step = "estimated" if task.depth is PlanDepth.ESTIMATE else "planned"
            rest = remaining.describe_rest(left, time.monotonic())
            status.update(f"{step}: {planned.name} {planned.verdict}; {left} left, {rest}")

        return search_combinations(
            partial(_plan_each, partial(plan_task, request, target, blocks), blocks is not None),
            request.world_size or 1,
            show_progress,
            estimates=blocks is not None,
        )


def _plan_each(
    plan: Callable[[SearchTask], TaskPlan], are_long: bool, tasks: Iterable[SearchTask]
) -> Iterator[tuple[SearchTask, TaskPlan]]:
    """Plan in one process for each core, or in this process as long as plans are short."""
    waiting = iter(tasks)
    if not are_long:
        for number, task in enumerate(waiting):
            began_s = time.process_time()
            planned = plan(task)
            taken_s = time.process_time() - began_s
            yield task, planned
            if taken_s > _LONG_S and number:  # the first imports libraries
                break
    jobs = max(1, min(count_available_cores(), psutil.virtual_memory().available // _PROCESS_BYTES))
    for task, result in run_in_processes(plan, waiting, jobs):
        if isinstance(result, PerfkitError):
            raise result
        yield task, result


class _Remaining:
    """The time that the rest of a search takes at most, by the plans so far."""

    def __init__(self) -> None:
        self._plans, self._first_s = 0, 0.0

    def describe_rest(self, left: int, now_s: float) -> str:
        """Count one more plan, done at `now_s`; in words, what `left` plans would take."""
        self._first_s = self._first_s or now_s
        self._plans += 1
        if self._plans == 1:
            return "remaining time unknown"
        return f"at most {format_seconds(left * (now_s - self._first_s) / (self._plans - 1))} left"


def format_search(search: PlanSearch) -> Iterator[str]:
    """A line for each combination that fits, and the reasons for those left out."""
    estimated = f", {search.estimated} estimated from few blocks" if search.estimated else ""
    yield f"{search.planned} of {search.combinations} combinations planned{estimated}; the rest inferred"
    if not search.fitting:
        yield "none fits"
    else:
        fastest = "fastest " if search.estimated else ""
        yield f"{len(search.fitting)} {fastest}fit, ordered by {search.ordered_by}:"
        yield from align_columns([("variant", "step", "FLOPs", "needs"), *map(_build_row, search.fitting)])
    yield from _format_excluded(search)
    for name, reason in search.left_out.items():
        yield f"without {name}: {reason}"


def _format_excluded(search: PlanSearch) -> Iterator[str]:
    """A line for each rule that excludes combinations, with the one that comes closest; --json has all of them."""
    for rule, meaning in EXCLUSION_RULES.items():
        excluded = [each for each in search.excluded if each.rule == rule]
        if not excluded:
            continue
        closest = min(excluded, key=lambda each: inf if each.step_s is None else each.step_s)
        yield f"{len(excluded)} {meaning}, e.g. {closest.name}: {closest.reason}"


def _build_row(variant: PlannedVariant) -> tuple[str, str, str, str]:
    needed = variant.needed_bytes
    step = "" if variant.step_s is None else f"{format_significant(variant.step_s.total.value * 1e3, 3)} ms"
    flops = "" if variant.flops is None else f"{format_significant(variant.flops / 1e9, 3)} G"
    return variant.name, step, flops, "" if needed is None else format_bytes(needed.high)
