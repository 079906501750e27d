"""Finds the least change with which a variant fits, by planning memory-saving techniques."""

from collections.abc import Callable, Sequence
from math import inf

from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, parse_variants
from perfkit.core.units import format_percent
from perfkit.measure.schedule import Techniques
from perfkit.plan.target.target import Target
from perfkit.plan.variants.plan import plan_schedule, plan_variant
from perfkit.store.request import BenchRequest

# Memory-saving techniques; those that keep the losses come first. Techniques of several ranks apply only to variants
# with several ranks.
_LOSSLESS = "flash,optim_in_backward,accum,fused_ce,ckpt:mode=selective,ckpt:every=sqrt,ckpt"
_LOSSLESS_OF_RANKS = "zero1,zero2,zero3"
_LOSSY = "amp,bf16,optim:use=adamw8bit,optim:use=adafactor"


def suggest_least_change(
    request: BenchRequest, target: Target, planned: Sequence[PlannedVariant], progress: Callable[[str], None]
) -> list[PlannedVariant]:
    """The variants of a request; if none fits, the one that needs least has a suggestion.

    Techniques are added to it one by one; `progress` receives each. Of those that fit, the one with the fewest extra
    FLOPs is suggested; one that changes the losses only if no other suffices.
    """
    closest = min((variant for variant in planned if variant.fits is False), key=_get_needed_bytes, default=None)
    if closest is None or any(variant.fits is not False for variant in planned if variant.needed_bytes is not None):
        return [*planned]
    request = replace(request, world_size=closest.world_size, world_sizes=())
    runs = plan_schedule(request, target).runs
    techniques = next(run.spec.techniques for run in runs if run.spec.variant == closest.name)
    lossless = f"{_LOSSLESS_OF_RANKS},{_LOSSLESS}" if closest.world_size > 1 else _LOSSLESS
    change = "no single memory-saving technique makes it fit"
    for tier in (lossless, _LOSSY):
        tried = [
            _plan_with_technique(request, target, techniques, added, progress) for (added,) in parse_variants(tier)
        ]
        fitting = [(added, variant) for added, variant in tried if variant is not None and variant.fits]
        if fitting:
            added, variant = min(fitting, key=lambda item: item[1].flops or inf)
            change = f"smallest change that fits: {added}{_describe_more_flops(variant, closest)}"
            break
    suggestion = replace(closest, verdict=f"{closest.verdict}; {change}")
    return [suggestion if variant is closest else variant for variant in planned]


def _get_needed_bytes(variant: PlannedVariant) -> float:
    needed = variant.needed_bytes
    return inf if needed is None else needed.value


def _plan_with_technique(
    request: BenchRequest, target: Target, techniques: Techniques, one: TechniqueSpec, progress: Callable[[str], None]
) -> tuple[str, PlannedVariant | None]:
    """The added technique in words, and the variant with it; None if already present or incompatible."""
    if one.name in {each.name for each in techniques}:
        return one.label, None
    progress(one.label)
    try:
        *_, run = plan_schedule(replace(request, variants=((*techniques, one),)), target).runs
    except UsageError:
        return one.label, None
    return one.label, plan_variant(run, target)


def _describe_more_flops(variant: PlannedVariant, candidate: PlannedVariant) -> str:
    if not variant.flops or not candidate.flops:
        return ""
    more = variant.flops / candidate.flops - 1
    return f" ({format_percent(more, 0)} more FLOPs)" if more >= 0.005 else " (no more FLOPs)"
