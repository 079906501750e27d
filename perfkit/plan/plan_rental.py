"""Plans variants on several GPUs and numbers of them: which is the cheapest, and how many are needed."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, Plan, PlannedVariant
from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec
from perfkit.measure.bench import compute_needed_ranks
from perfkit.measure.schedule import Techniques
from perfkit.measure.world_sizes import set_world_size
from perfkit.plan.plan_record import build_plan_record
from perfkit.plan.rental.gpu_counts import search_counts
from perfkit.plan.rental.offers import build_offers, compute_flops_per_unit, find_answer, sort_offers
from perfkit.plan.rental.prices import Prices
from perfkit.plan.target.target import Target
from perfkit.plan.variants.evaluation_phases import Evaluation
from perfkit.plan.variants.plan import PlanRun, plan_variant, schedule_run, share_rehearsals
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.rank_sharing import explain_lacking_ranks
from perfkit.techniques.compose import are_compatible, find_open_technique


class RentalRequest(NamedTuple):
    """The GPUs in question, numbers of them, and prices; `run_units` is the length of a run, None if not given."""

    targets: tuple[Target, ...]
    counts: tuple[int, ...]
    prices: Prices
    run_units: float | None = None


def make_shared_planner(evaluation: Evaluation | None = None) -> PlanRun:
    """A planner that rehearses each run once for all GPUs on which it makes the same tensors."""
    return partial(plan_variant, rehearse=share_rehearsals(), evaluation=evaluation)


def plan_rental(
    request: BenchRequest,
    rental: RentalRequest,
    command: str,
    progress: Callable[[str], None] = lambda _: None,
    plan: PlanRun | None = None,
) -> Plan:
    """The plan of the GPU that is the answer, with all offers.

    Where no given variant fits anywhere, all of them together are planned as one. The unmodified model is planned on
    one GPU, for its FLOPs.

    Raises:
        UsageError: a variant with an `auto` parameter, or no number of GPUs that a variant can use.
    """
    plan_run = plan or make_shared_planner()
    for techniques in request.variants:
        if find_open_technique(techniques) is not None:
            raise UsageError(
                "parameters to be found (batch:auto, ckpt:fit) need one GPU and one --world-size; give their values"
            )

    def plan_on(target: Target, techniques: Techniques, count: int) -> PlannedVariant:
        variant = plan_run(schedule_run(set_world_size(request, count), techniques, target), target)
        progress(f"{count} x {target.device}: {variant.name} {variant.verdict or variant.reason}")
        return variant

    def plan_all(variants: Iterable[Techniques]) -> None:
        for target in rental.targets:
            for techniques in variants:
                counts = _select_counts(techniques, rental.counts)
                found = search_counts(counts, partial(plan_on, target, techniques))
                planned.append((target, found))
                offers.extend(build_offers(found, target, rental.prices, per_unit))

    planned: list[tuple[Target, list[PlannedVariant]]] = []
    offers: list[GpuOffer] = []
    per_unit = compute_flops_per_unit([plan_on(rental.targets[0], (), 1)])
    plan_all(request.variants)
    union = join_variants(request.variants)
    if union is not None and not any(offer.fits for offer in offers):
        plan_all([union])
    ranked = sort_offers(offers)
    best = find_answer(ranked)
    target = next(each for each in rental.targets if (each.device, each.limit_bytes) == (best.device, best.limit_bytes))
    variants = [variant for device, found in planned if device is target for variant in found]
    record = build_plan_record(request, target, variants, command)
    return replace(record, offers=ranked, run_units=rental.run_units)


def join_variants(variants: Sequence[Techniques]) -> Techniques | None:
    """The techniques of all variants as one; None if there is one variant, or they do not go together."""
    union: dict[str, TechniqueSpec] = {spec.label: spec for techniques in variants for spec in techniques}
    joined = tuple(union.values())
    return joined if are_compatible(joined) and joined not in variants else None


def _select_counts(techniques: Techniques, counts: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of GPUs that techniques can use."""
    needed = compute_needed_ranks(techniques)
    usable = tuple(count for count in counts if not explain_lacking_ranks(needed, count))
    if not usable:
        raise UsageError(f"--gpus: {explain_lacking_ranks(needed, counts[-1])}")
    return usable
