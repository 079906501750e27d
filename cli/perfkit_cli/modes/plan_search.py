"""`perfkit plan --search`: finds the combinations of techniques that fit, the fastest first."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
import psutil
from msgspec.structs import replace
from rich.console import Console

from perfkit.analysis.model.plan import PlannedVariant, PlanSearch
from perfkit.analysis.parallel.worker_processes import run_in_processes
from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.units import format_bytes, format_seconds, format_significant
from perfkit.devices.machine.machine import count_available_cores
from perfkit.measure.schedule import Techniques
from perfkit.plan.rehearsal.quiet_libraries import silence_kineto
from perfkit.plan.search.combinations import search_combinations
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import shorten_workload
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
    with console.status("planning each technique alone") as status:
        return search_combinations(
            partial(_plan_each, request, target),
            partial(_probe_technique, request, target),
            request.world_size or 1,
            lambda done, total, last: status.update(
                f"{done} of {total} combinations, {remaining.describe_rest(total - done, time.monotonic())}: "
                f"{last.name} {last.verdict}"
            ),
        )


def _plan_each(
    request: BenchRequest, target: Target, combinations: Iterable[Techniques]
) -> Iterator[tuple[Techniques, PlannedVariant]]:
    """Plan in this process as long as plans are short, then in one process for each core."""
    plan, waiting = partial(_plan_combination, request, target), iter(combinations)
    for techniques in waiting:
        began_s = time.process_time()
        planned = plan(techniques)
        taken_s = time.process_time() - began_s
        yield techniques, planned
        if taken_s > _LONG_S:
            break
    jobs = max(1, min(count_available_cores(), psutil.virtual_memory().available // _PROCESS_BYTES))
    for techniques, result in run_in_processes(plan, waiting, jobs):
        if isinstance(result, PerfkitError):
            raise result
        yield techniques, result


def _plan_combination(request: BenchRequest, target: Target, techniques: Techniques) -> PlannedVariant:
    """A plan without the account of the memory and the ops, which a search does not show."""
    silence_kineto()
    planned = plan_variant(schedule_run(request, techniques, target), target)
    return replace(planned, memory=None, ops=())


def _probe_technique(request: BenchRequest, target: Target, techniques: Techniques) -> PlannedVariant:
    """Plan with few of the model's blocks; the whole model confirms that a technique cannot act, and says why."""
    short = replace(request, workload=shorten_workload(request.workload, target.kind))
    planned = plan_variant(schedule_run(short, techniques, target), target)
    if planned.reason and short != request:
        return _plan_combination(request, target, techniques)
    return planned


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
    yield f"{search.planned} of {search.combinations} combinations planned; the rest inferred"
    if not search.fitting:
        yield "none fits"
    else:
        yield f"{len(search.fitting)} fit, ordered by {search.ordered_by}:"
        yield from align_columns([("variant", "step", "FLOPs", "needs"), *map(_build_row, search.fitting)])
    for name, reason in search.left_out.items():
        yield f"without {name}: {reason}"


def to_builtins(search: PlanSearch) -> dict[str, Any]:
    """For --json."""
    return {**msgspec.to_builtins(search), "fitting": [summarize_variant(variant) for variant in search.fitting]}


def summarize_variant(variant: PlannedVariant) -> dict[str, Any]:
    """A variant for --json: with the sums, without the account of the memory and the ops, each as long as a report."""
    whole: dict[str, Any] = msgspec.to_builtins(variant)
    whole["outside_allocator_bytes"] = msgspec.to_builtins(variant.outside_allocator_bytes)
    whole["needed_bytes"] = msgspec.to_builtins(variant.needed_bytes)
    del whole["memory"], whole["ops"]
    return whole


def _build_row(variant: PlannedVariant) -> tuple[str, str, str, str]:
    needed = variant.needed_bytes
    step = "" if variant.step_s is None else f"{format_significant(variant.step_s.total.value * 1e3, 3)} ms"
    flops = "" if variant.flops is None else f"{format_significant(variant.flops / 1e9, 3)} G"
    return variant.name, step, flops, "" if needed is None else format_bytes(needed.high)
