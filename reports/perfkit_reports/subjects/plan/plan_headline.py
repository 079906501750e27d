"""The headline of a plan."""

from collections.abc import Iterator

from perfkit.analysis.model.plan import Plan, PlannedVariant
from perfkit.core import units
from perfkit.plan.rental.offers import find_answer
from perfkit_reports.subjects.plan import plan_answer, plan_cells, plan_largest, plan_lengths, plan_packing, plan_phases


def select_comparable(plan: Plan) -> list[PlannedVariant]:
    """The variants that a superlative may name: those that fit; all, if none does and none may, or without a limit.

    Where some may fit and none does for sure, none is the least or the fastest of those that fit. A variant that is
    planned alone is compared with none.
    """
    known = [variant for variant in plan.variants if variant.needed_bytes is not None]
    if plan.limit_bytes is None or len(plan.variants) == 1 or all(variant.fits is False for variant in known):
        return known
    return [variant for variant in known if variant.fits]


def find_leanest(plan: Plan) -> PlannedVariant | None:
    """The variant with the least needed memory among comparable ones; None if there are none."""
    known = select_comparable(plan)
    return min(known, key=lambda variant: plan_cells.make_needed_cell(variant).value or 0.0, default=None)


def find_fastest(plan: Plan) -> PlannedVariant | None:
    """The variant with the shortest step among comparable ones; None if no time was predicted."""
    known = [variant for variant in select_comparable(plan) if variant.step_s is not None]
    return min(known, key=lambda variant: plan_cells.make_step_time_cell(variant).value or 0.0, default=None)


def build_headline(plan: Plan) -> str:
    """What the training steps need, and the phase of the named variant that does not fit although these do."""
    named = _find_named(plan)
    misfit = "" if named is None else plan_phases.describe_misfit(named)
    return f"{_describe_steps(plan)}{f' But its {misfit}.' if misfit else ''}"


def _find_named(plan: Plan) -> PlannedVariant | None:
    """The variant that the headline is about."""
    if plan.offers:
        best = find_answer(plan.offers)
        return next(
            (each for each in plan.variants if plan_answer.is_offered(plan, best, each.name, each.world_size)), None
        )
    return None if plan.largest else find_leanest(plan)


def _describe_steps(plan: Plan) -> str:
    """The largest size, or the answer among GPUs; else how many variants fit into a limit, and the least memory."""
    if plan.largest:
        return plan_largest.describe_largest(plan)
    if plan.offers:
        return plan_answer.describe_answer(plan)
    if all(variant.needed_bytes is None for variant in plan.variants):
        return "Memory needs are unknown."
    least = find_leanest(plan)
    if least is None:
        return _describe_fitting(plan).rstrip()
    if len(plan.variants) == 1:
        amount = plan_cells.make_needed_cell(least)
        return f"{least.name} {least.verdict or f'needs {amount.detail or amount.text}'}."
    return f"{_describe_fitting(plan)}{_describe_least(least, plan)}."


def list_remarks(plan: Plan) -> Iterator[str]:
    """Remarks that qualify the headline."""
    yield from plan_largest.list_conditions(plan)
    yield from plan_answer.list_consequences(plan)
    best = find_fastest(plan)
    if best is not None and not plan.offers and not plan.largest:
        time = plan_cells.make_step_time_cell(best)
        bounds = f" ({time.detail})" if time.detail else ""
        lead = "Step time: " if len(plan.variants) == 1 else f"Fastest: {best.name}, "
        misfit = ", does not fit" if len(plan.variants) > 1 and best.fits is False else ""
        yield f"{lead}{time.text}{bounds}{misfit}."
    yield from plan_lengths.list_expected_failures(plan)
    yield from plan_packing.list_gains(plan)
    yield from plan_phases.list_deciding_phases(plan)
    yield "Estimated with fake tensors; nothing was trained."


def _describe_fitting(plan: Plan) -> str:
    """Number of fitting variants; empty without a limit."""
    limit = plan.limit_bytes
    if limit is None:
        return ""
    verdicts = [
        plan_cells.make_fits_cell(variant, limit).text for variant in plan.variants if variant.needed_bytes is not None
    ]
    into = f"into {units.format_bytes(limit)}. "
    for one, several in (("fits", "fit"), ("may fit", "may fit")):
        count = verdicts.count(one)
        if count:
            return f"{count} of {len(verdicts)} variants {one if count == 1 else several} {into}"
    return f"No variant fits {into}"


def _describe_least(variant: PlannedVariant, plan: Plan) -> str:
    saved = _describe_saved(variant, plan)
    if variant.verdict:
        return f"{variant.name} needs the least memory{saved}; it {variant.verdict}"
    amount = plan_cells.make_needed_cell(variant)
    return f"{variant.name} needs the least memory: {amount.detail or amount.text}{saved}"


def _describe_saved(variant: PlannedVariant, plan: Plan) -> str:
    change = plan_cells.make_change_cell(variant, plan)
    return "" if variant.is_baseline or not isinstance(change.value, float) else f", {change.text} vs the baseline"
