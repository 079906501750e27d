"""Builds what planned variants mean to those who rent: speed, utilization and cost on a number of GPUs."""

from collections.abc import Iterable, Sequence
from math import inf

from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, PlannedVariant
from perfkit.devices.ceilings.peak import find_matrix_ceiling
from perfkit.plan.rental.prices import Prices
from perfkit.plan.target.target import Target
from perfkit.plan.timing.device_efficiencies import get_target_ceilings


def build_offers(
    variants: Iterable[PlannedVariant], target: Target, prices: Prices, flops_per_unit: float | None
) -> list[GpuOffer]:
    """The offers of variants on one GPU model; none on a CPU."""
    return [] if target.entry is None else [_build_offer(each, target, prices, flops_per_unit) for each in variants]


def _build_offer(variant: PlannedVariant, target: Target, prices: Prices, flops_per_unit: float | None) -> GpuOffer:
    assert target.limit_bytes is not None
    step = None if variant.step_s is None else variant.step_s.total
    offer = GpuOffer(
        device=target.device,
        count=variant.world_size,
        variant=variant.name.partition("@")[0],
        limit_bytes=target.limit_bytes,
        fits=variant.fits,
        verdict=variant.verdict,
        needed=variant.needed_bytes,
        step_s=step,
        unit=variant.unit,
        units_per_step=variant.units_per_step,
        mfu=_compute_mfu(variant, target, flops_per_unit),
        price=prices.get(target.device),
        reason=variant.reason or variant.step_reason,
    )
    return add_cost(offer)


def add_cost(offer: GpuOffer) -> GpuOffer:
    """The offer with the cost of a million tokens, or a thousand samples, at its price."""
    per_second = offer.units_per_s
    if offer.price is None or not per_second:
        return offer
    return replace(offer, cost=offer.count * offer.price.cost(per_second, offer.unit))


def compute_flops_per_unit(variants: Iterable[PlannedVariant]) -> float | None:
    """FLOPs that the unmodified model takes per token or sample, by its planned baseline; None without one."""
    known = (each for each in variants if each.is_baseline and each.units_per_step)
    baseline = next((each for each in known if each.matrix_flops), None)
    if baseline is None or baseline.matrix_flops is None:
        return None
    return baseline.matrix_flops * baseline.world_size / baseline.units_per_step


def _compute_mfu(variant: PlannedVariant, target: Target, flops_per_unit: float | None) -> float | None:
    """FLOPs of the unmodified model over those of the GPUs' peaks (PaLM, arXiv 2204.02311, appendix B)."""
    peak = find_matrix_ceiling(get_target_ceilings(target), variant.compute_dtype, threads=None)
    if variant.step_s is None or peak is None or flops_per_unit is None:
        return None
    share = flops_per_unit * variant.units_per_step / (variant.step_s.total.value * variant.world_size * peak.value)
    return share if share <= 1 else None


def sort_offers(offers: Iterable[GpuOffer]) -> tuple[GpuOffer, ...]:
    """Those that fit first, then those that may; each by cost where all have one, else by speed."""
    listed = list(offers)
    by_cost = all(offer.cost is not None for offer in listed if offer.fits is not False)
    order = {True: 0, None: 1, False: 2}

    def key(offer: GpuOffer) -> tuple[int, bool, float, int]:
        speed = offer.units_per_s
        value = offer.cost if by_cost else None if speed is None else 1 / speed
        return order[offer.fits], offer.needed is None, inf if value is None else value, offer.count

    return tuple(sorted(listed, key=key))


def find_answer(offers: Sequence[GpuOffer]) -> GpuOffer:
    """The offer to name first: the fewest GPUs that fit, where several numbers are asked for; else the best one.

    Several models with prices are compared by cost, whatever their number.
    """
    several_models = len({offer.device for offer in offers}) > 1
    by_cost = several_models and offers[0].cost is not None
    return offers[0] if by_cost else find_fewest(offers) or offers[0]


def find_fewest(offers: Sequence[GpuOffer]) -> GpuOffer | None:
    """The first offer on the fewest GPUs among those that fit; None if none is known to."""
    return min((offer for offer in offers if offer.fits), key=lambda offer: offer.count, default=None)


def find_fastest(offers: Sequence[GpuOffer]) -> GpuOffer | None:
    """The offer with most units per second among those that fit; None if none of known speed is known to."""
    timed = [offer for offer in offers if offer.fits and offer.units_per_s]
    return max(timed, key=lambda offer: offer.units_per_s or 0.0, default=None)
