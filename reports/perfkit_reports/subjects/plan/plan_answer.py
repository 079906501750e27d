"""The answer of a plan for GPUs in one sentence, what it means for a run, and what to do next."""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from perfkit.analysis.model.plan import GpuOffer, Plan, PlannedVariant
from perfkit.core import units
from perfkit.plan.rental.offers import find_answer, find_fastest, find_fewest
from perfkit.store.price import format_cost_unit

_GIB = 2**30
_DAY_S = 86400.0


class NextStep(NamedTuple):
    """A goal, the GPUs and techniques that reach it, and the command to run."""

    goal: str
    choice: str
    command: str


def describe_answer(plan: Plan) -> str:
    """`8 x h100-sxm, amp+zero3: fits with 38 to 49 of 80 GiB, 1.45 s a step, 36 % MFU, 2.1 EUR per 1M tokens.`"""
    best = find_answer(plan.offers)
    if best.needed is None:
        return f"Memory needs are unknown: {best.reason}."
    if best.fits is False:
        closest = min((each for each in plan.offers if each.needed is not None), key=_get_excess)
        verdict = next(
            (each.verdict for each in plan.variants if is_offered(plan, closest, each.name, each.world_size)),
            closest.verdict,
        )
        return f"Nothing fits. Closest: {name_offer(closest)}, {verdict}."
    return f"{name_offer(best)}: {describe_offer(best)}."


def describe_offer(offer: GpuOffer) -> str:
    """`fits with 38 to 49 of 80 GiB, 1.45 s a step, 36 % MFU, 2.1 EUR per 1M tokens`, of an offer of known need."""
    fits = "fits with" if offer.fits else "may fit: needs"
    return ", ".join((f"{fits} {_format_span(offer)}", *_list_figures(offer)))


def name_offer(offer: GpuOffer) -> str:
    """`8 x h100-sxm, amp+zero3`."""
    return f"{offer.count} x {offer.device}, {offer.variant}"


def list_consequences(plan: Plan) -> Iterator[str]:
    """How many offers fit, the fewest GPUs, and the time and cost of the run that was asked for."""
    if not plan.offers:
        return
    fitting = [offer for offer in plan.offers if offer.fits]
    if len(plan.offers) > 1:
        may = sum(offer.fits is None and offer.needed is not None for offer in plan.offers)
        yield f"{len(fitting)} of {len(plan.offers)} fit{f', {may} may fit' if may else ''}."
    fewest = find_fewest(plan.offers)
    if fewest is not None and len({offer.count for offer in plan.offers}) > 1:
        yield f"Fewest GPUs that fit: {name_offer(fewest)}."
        yield from _name_best(fitting[0])
    answer = find_answer(plan.offers)
    if answer.fits and plan.run_units is not None and (seconds := compute_run_s(plan, answer)) is not None:
        cost = format_run_cost(plan, answer)
        run = f"A run of {plan.run_units:,.0f} {answer.unit} on {answer.count} x {answer.device}"
        yield f"{run}: {format_run_s(seconds)}{cost and f', {cost}'}."


def _name_best(offer: GpuOffer) -> Iterator[str]:
    """The first offer in the order of the table, with the figure of that order."""
    if offer.cost is not None and offer.price is not None:
        cost = f"{offer.price.format_amount(offer.cost)} per {format_cost_unit(offer.unit)}"
        yield f"Cheapest: {name_offer(offer)}, {cost}."
    elif offer.units_per_s is not None:
        yield f"Fastest: {name_offer(offer)}, {units.format_significant(offer.units_per_s)} {offer.unit}/s."


def compute_run_s(plan: Plan, offer: GpuOffer) -> float | None:
    """Seconds of the whole run; None if its length or the speed is unknown."""
    speed = offer.units_per_s
    return None if plan.run_units is None or speed is None else plan.run_units / speed


def format_run_s(seconds: float) -> str:
    """Hours, or days from two on."""
    if seconds >= 2 * _DAY_S:
        return f"{units.format_significant(seconds / _DAY_S)} days"
    return f"{units.format_significant(seconds / 3600)} h"


def format_run_cost(plan: Plan, offer: GpuOffer) -> str:
    """The price of all GPUs for the whole run; empty if unknown."""
    seconds = compute_run_s(plan, offer)
    if seconds is None or offer.price is None:
        return ""
    return offer.price.format_amount(offer.count * offer.price.per_hour * seconds / 3600)


def list_next_steps(plan: Plan) -> list[NextStep]:
    """What to do: measure the cheapest, the fastest and the smallest offer, or find techniques that fit."""
    label = shlex.quote(plan.workload.label)
    if not plan.offers:
        return _list_steps_without_offers(plan, label)
    best = plan.offers[0]
    if not best.fits:
        gpus = f"--gpu {best.device}" + (f" --world-size {best.count}" if best.count > 1 else "")
        return [NextStep("Find what fits", f"{best.count} x {best.device}", f"perfkit plan {label} {gpus} --search")]
    named: list[tuple[str, GpuOffer | None]] = [("cheapest" if best.cost is not None else "fastest", best)]
    named += [("fastest", find_fastest(plan.offers)), ("fewest GPUs", find_fewest(plan.offers))]
    goals: dict[str, list[str]] = {}
    offers = {name_offer(offer): offer for _, offer in named if offer is not None}
    for goal, offer in named:
        if offer is not None:
            goals.setdefault(name_offer(offer), []).append(goal)
    steps = [
        NextStep(f"Measure: {', '.join(dict.fromkeys(names))}", name, _format_bench(label, offers[name]))
        for name, names in goals.items()
    ]
    unpriced = next((offer.device for offer in plan.offers if offer.price is None), None)
    if unpriced is not None:
        again = plan.command or f"perfkit plan {label} --gpu {unpriced}"
        steps.append(NextStep("Compare costs at your price", unpriced, f"{again} --price {unpriced}=PRICE/h"))
    return steps


def _list_steps_without_offers(plan: Plan, label: str) -> list[NextStep]:
    """Measure the fastest variant that fits, or find techniques that fit."""
    known = [variant for variant in plan.variants if variant.needed_bytes is not None]
    fitting = known if plan.limit_bytes is None else [variant for variant in known if variant.fits]
    if known and not fitting:
        gpu = f" --gpu {plan.device_name}" if plan.device_name else ""
        return [NextStep("Find what fits", plan.device_name or plan.device, f"perfkit plan {label}{gpu} --search")]
    timed = [variant for variant in fitting if variant.step_s is not None]
    best = min(timed or fitting, key=_get_cost, default=None)
    if best is None:
        return []
    goal = "" if len(known) == 1 else ": fastest" if timed else ": least memory"
    ranks = f" --world-size {best.world_size}" if best.world_size > 1 else ""
    techniques = "" if best.is_baseline else f" -t {best.name.partition('@')[0]}"
    return [NextStep(f"Measure{goal}", best.name, f"perfkit bench -w {label}{techniques}{ranks}")]


def _get_cost(variant: PlannedVariant) -> float:
    """Seconds of a step, else bytes."""
    if variant.step_s is not None:
        return variant.step_s.total.value
    return 0.0 if variant.needed_bytes is None else variant.needed_bytes.value


def _format_bench(label: str, offer: GpuOffer) -> str:
    ranks = f" --world-size {offer.count}" if offer.count > 1 else ""
    return f"perfkit bench -w {label} -t {offer.variant}{ranks}"


def is_offered(plan: Plan, offer: GpuOffer, name: str, world_size: int) -> bool:
    """True if an offer is of this variant and number of ranks, on the plan's own GPU."""
    key = (plan.device_name, name.partition("@")[0], world_size)
    return (offer.device, offer.variant, offer.count) == key


def _get_excess(offer: GpuOffer) -> float:
    return 0.0 if offer.needed is None else offer.needed.value - offer.limit_bytes


def _format_span(offer: GpuOffer) -> str:
    """`38 to 49 of 80 GiB`."""
    assert offer.needed is not None
    low, high = (
        units.format_significant(bound / _GIB, 2 if offer.fits else 4)
        for bound in (offer.needed.low, offer.needed.high)
    )
    return f"{low if low == high else f'{low} to {high}'} of {offer.limit_bytes / _GIB:.4g} GiB"


def _list_figures(offer: GpuOffer) -> Iterator[str]:
    if offer.step_s is not None:
        yield f"{units.format_seconds(offer.step_s.value)} a step"
    if offer.mfu is not None:
        yield f"{units.format_percent(offer.mfu, 0)} MFU"
    if offer.cost is not None and offer.price is not None:
        yield f"{offer.price.format_amount(offer.cost)} per {format_cost_unit(offer.unit)}"
