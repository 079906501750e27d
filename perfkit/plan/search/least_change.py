"""Finds the least change with which a variant of a request fits."""

from collections.abc import Callable, Sequence
from math import inf

from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, parse_technique
from perfkit.core.units import format_percent
from perfkit.measure.schedule import Techniques
from perfkit.measure.world_sizes import set_world_size
from perfkit.plan.search.memory_savings import list_savings
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import PlanRun, plan_schedule, plan_variant, schedule_run
from perfkit.store.request import BenchRequest


def suggest_least_change(
    request: BenchRequest,
    target: Target,
    planned: Sequence[PlannedVariant],
    progress: Callable[[str], None],
    plan: PlanRun | None = None,
) -> list[PlannedVariant]:
    """The variants of a request; if none fits, the one that needs least has a suggestion.

    Techniques are added to it one by one, planned by `plan` (`plan_variant` without it); `progress` receives each. Of
    those that fit, the one with the fewest extra FLOPs is suggested; one that changes the losses only if no other
    suffices.
    """
    closest = min((variant for variant in planned if variant.fits is False), key=_get_needed_bytes, default=None)
    if closest is None or any(variant.fits is not False for variant in planned if variant.needed_bytes is not None):
        return [*planned]
    request = set_world_size(request, closest.world_size)
    runs = plan_schedule(request, target).runs
    techniques = next(run.spec.techniques for run in runs if run.spec.variant == closest.name)
    savings = list_savings(closest.world_size)
    change = "no single memory-saving technique makes it fit"
    for lossless in (True, False):
        fitting: list[tuple[str, PlannedVariant]] = []
        tried = (name for saving in savings if saving.price.is_lossless is lossless for name in saving.tried)
        for added in map(parse_technique, tried):
            if added.name in {each.name for each in techniques}:
                continue
            progress(added.label)
            variant = _plan_with_technique(request, target, techniques, added, plan)
            if variant is not None and variant.fits:
                fitting.append((added.label, variant))
        if fitting:
            label, variant = min(fitting, key=lambda item: item[1].flops or inf)
            change = f"smallest change that fits: {label}{_describe_more_flops(variant, closest)}"
            break
    suggestion = replace(closest, verdict=f"{closest.verdict}; {change}")
    return [suggestion if variant is closest else variant for variant in planned]


def _get_needed_bytes(variant: PlannedVariant) -> float:
    needed = variant.needed_bytes
    return inf if needed is None else needed.value


def _plan_with_technique(
    request: BenchRequest, target: Target, techniques: Techniques, added: TechniqueSpec, plan: PlanRun | None
) -> PlannedVariant | None:
    """The variant with one more technique; None if incompatible."""
    try:
        run = schedule_run(request, (*techniques, added), target)
    except UsageError:
        return None
    return (plan or plan_variant)(run, target)


def _describe_more_flops(variant: PlannedVariant, candidate: PlannedVariant) -> str:
    if not variant.flops or not candidate.flops:
        return ""
    more = variant.flops / candidate.flops - 1
    return f" ({format_percent(more, 0)} more FLOPs)" if more >= 0.005 else " (no more FLOPs)"
