"""The best that goes together: techniques are joined as long as the whole gets better."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from perfkit.errors import UsageError
from perfkit.plan.advise.candidates import Candidate, Techniques, make_candidate
from perfkit.plan.advise.model import ExcludedVariant

Outcome = TypeVar("Outcome")


class CombinedTechniques(NamedTuple):
    """What was joined, empty where nothing helps, and what clashes with it."""

    specs: Techniques
    clashes: tuple[ExcludedVariant, ...]


def combine_techniques(
    ordered: Sequence[Candidate],
    evaluate: Callable[[Techniques], Outcome],
    better: Callable[[Outcome, Outcome], bool],
) -> CombinedTechniques:
    """Techniques joined one after the other, each if all together are then better than without it.

    Gains do not add up, so that every combination is evaluated as a whole. What is no longer worth it beside those that
    came later goes again in the end.
    """
    chosen: Techniques = ()
    clashes: dict[str, str] = {}
    best, growing = evaluate(chosen), True
    while growing:
        growing = False
        for each in ordered:
            joined = _join_specs(chosen, each)
            if joined is None:
                continue
            try:
                make_candidate(joined)
            except UsageError as clash:
                clashes[each.name] = str(clash)
                continue
            if better(outcome := evaluate(joined), best):
                chosen, best, growing = joined, outcome, True
    for spec in chosen:
        fewer = tuple(other for other in chosen if other != spec)
        if fewer and _is_valid(fewer) and not better(best, outcome := evaluate(fewer)):
            chosen, best = fewer, outcome
    kept = {spec.label for spec in chosen}
    return CombinedTechniques(
        chosen,
        tuple(
            ExcludedVariant(name=name, reason=why) for name, why in clashes.items() if not kept >= {*name.split("+")}
        ),
    )


def _join_specs(chosen: Techniques, more: Candidate) -> Techniques | None:
    """Both together; None where the chosen have all of it, or one of the same name."""
    names = {spec.name for spec in chosen}
    fresh = tuple(spec for spec in more.specs if spec not in chosen)
    if not fresh or any(spec.name in names for spec in fresh):
        return None
    return (*chosen, *fresh)


def _is_valid(specs: Techniques) -> bool:
    """Whether what is left still goes together: one may need another that went."""
    try:
        make_candidate(specs)
    except UsageError:
        return False
    return True
