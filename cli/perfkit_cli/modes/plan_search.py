"""`perfkit plan --search`: finds the combinations of techniques that fit, the fastest first."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Console

from perfkit.analysis.model.plan import PlannedVariant, PlanSearch
from perfkit.core.errors import UsageError
from perfkit.core.units import format_bytes, format_significant
from perfkit.measure.schedule import Techniques
from perfkit.plan.search.combinations import search_combinations
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import plan_variant, schedule_run
from perfkit.store.request import BenchRequest
from perfkit_cli.output.listing import align_columns


def run_search(request: BenchRequest, target: Target, console: Console) -> PlanSearch:
    """The combinations that fit; the console shows the progress of the search."""
    if target.limit_bytes is None:
        raise UsageError(
            "--search needs a memory limit; give one, such as --memory 6GiB or --gpu h100-80g",
            id="usage.missing_option",
        )

    def plan(techniques: Techniques) -> PlannedVariant:
        return plan_variant(schedule_run(request, techniques, target), target)

    with console.status("planning each technique alone") as status:
        return search_combinations(
            plan,
            request.world_size or 1,
            lambda done, total, last: status.update(f"{done} of {total} combinations: {last.name} {last.verdict}"),
        )


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
