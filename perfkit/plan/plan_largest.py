"""Plans the largest batch or sequence of each variant that fits, and its memory, time and cost."""

from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, LargestSize, Plan, PlannedSize, PlannedVariant
from perfkit.core.errors import UnknownParameterError, UsageError
from perfkit.core.spec import BASELINE, WorkloadSpec, format_variant_label
from perfkit.measure.largest_batch import set_technique
from perfkit.measure.redundant_size import read_batch_facts
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.plan_record import build_plan_record
from perfkit.plan.rental.offers import build_offers, compute_flops_per_unit, sort_offers
from perfkit.plan.rental.prices import Prices
from perfkit.plan.search.largest_batch import plan_largest_size
from perfkit.plan.search.sizes import SIZES
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import PlanRun, plan_variant, schedule_run
from perfkit.plan.variants.verdict import judge_fit
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import load_workload


def plan_largest(
    request: BenchRequest,
    target: Target,
    size: str,
    *,
    margin: float,
    most: int | None,
    command: str,
    prices: Prices,
    run_units: float | None = None,
    plan: PlanRun = plan_variant,
    progress: Callable[[str, PlannedSize], None] = lambda *_: None,
) -> Plan:
    """The plan of the baseline and every variant, each at the largest value of `size`, a key of `SIZES`.

    A variant of which none fits is planned at the last value tried. `most` is the largest value to try, that of `SIZES`
    if None.

    Raises:
        UsageError: a target without a limit, or a workload without this size.
    """
    if target.limit_bytes is None:
        raise UsageError(
            f"--max {size} needs a memory limit; give one, such as --memory 6GiB or --gpu h100-80g",
            id="usage.missing_option",
        )
    kept: dict[str, PlannedVariant] = {}

    def plan_once(run: ScheduledRun, on: Target) -> PlannedVariant:
        if run.spec.variant not in kept:
            kept[run.spec.variant] = plan(run, on)
        return kept[run.spec.variant]

    _require_size(request.workload, target.kind, size)
    facts = read_batch_facts(request.workload, target.kind)
    first = int(facts.get(SIZES[size].fact, 1))
    found: list[LargestSize] = []
    offers: list[GpuOffer] = []
    variants: list[PlannedVariant] = []
    for techniques in {format_variant_label(each): each for each in ((), *request.variants)}.values():
        largest = plan_largest_size(
            request,
            techniques,
            target,
            margin=margin,
            first=first,
            most=most or SIZES[size].most,
            size=size,
            plan=plan_once,
            progress=partial(progress, format_variant_label(techniques)),
        )
        found.append(largest)
        variants.append(judge_fit(kept[largest.chosen.variant], target))
        # A longer sequence takes more FLOPs per token: MFU counts those of the unmodified model at the same size.
        bare = set_technique((), SIZES[size].make_spec(largest.chosen.size))
        unmodified = replace(plan_once(schedule_run(request, bare, target), target), name=BASELINE)
        offers += build_offers(variants[-1:], target, prices, compute_flops_per_unit([unmodified]))
    record = build_plan_record(request, target, variants, command)
    return replace(record, offers=sort_offers(offers), run_units=run_units, largest=tuple(found))


def _require_size(workload: WorkloadSpec, device: str, size: str) -> None:
    try:
        load_workload(workload.replace_params(**{size: 1}), device=device)
    except UnknownParameterError:
        raise UsageError(f"--max {size}: {workload.label} takes no {size}") from None
