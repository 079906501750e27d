"""Combines techniques as long as the whole improves."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from perfkit.core.errors import UsageError
from perfkit.plan.advise.advice import ExcludedVariant
from perfkit.plan.advise.candidates import Candidate, Techniques, make_candidate

Outcome = TypeVar("Outcome")


class CombinedTechniques(NamedTuple):
    """The joined techniques, empty if none helps, and their clashes."""

    specs: Techniques
    clashes: tuple[ExcludedVariant, ...]


def combine_techniques(
    ordered: Sequence[Candidate],
    evaluate: Callable[[Techniques], Outcome],
    better: Callable[[Outcome, Outcome], bool],
) -> CombinedTechniques:
    """Join techniques one by one, each if the whole improves.

    Gains do not add up, so every combination is evaluated as a whole. Techniques that later ones made useless are
    removed at the end.
    """
    chosen: Techniques = ()
    clashes: dict[str, str] = {}
    best, growing = evaluate(chosen), True
    while growing:
        growing = False
        for each in ordered:
            joined = join_specs(chosen, each)
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
        if fewer and is_valid(fewer) and not better(best, outcome := evaluate(fewer)):
            chosen, best = fewer, outcome
    accepted = {spec.label for spec in chosen}
    return CombinedTechniques(
        chosen,
        tuple(
            ExcludedVariant(name=name, reason=reason)
            for name, reason in clashes.items()
            if not accepted >= {*name.split("+")}
        ),
    )


def join_specs(chosen: Techniques, more: Candidate) -> Techniques | None:
    """Both together; None if the chosen contain it or a technique of the same name."""
    names = {spec.name for spec in chosen}
    fresh = tuple(spec for spec in more.specs if spec not in chosen)
    if not fresh or any(spec.name in names for spec in fresh):
        return None
    return (*chosen, *fresh)


def is_valid(specs: Techniques) -> bool:
    """True if techniques are compatible: one may need a removed one."""
    try:
        make_candidate(specs)
    except UsageError:
        return False
    return True
