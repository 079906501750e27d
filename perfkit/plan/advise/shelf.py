"""What may be switched on: the variants that the shelf suggests, and why others are left out."""

from collections.abc import Iterable
from typing import NamedTuple

import torch

from perfkit.measure.bench import min_world_size, refusal_of
from perfkit.plan.advise.model import Goal, LeftOut, Risk
from perfkit.spec import TechniqueSpec, variant_label
from perfkit.techniques.compose import compose
from perfkit.techniques.technique import Technique

Techniques = tuple[TechniqueSpec, ...]

_OTHER_WORK = {
    "seq": "sequences of another length are other work",
    "batch": "batches of another size are compared for a sample: use --goal cost",
}


class Candidate(NamedTuple):
    """A technique, or several: as named, and with typed parameters in the order in which they are applied."""

    specs: Techniques
    techniques: tuple[Technique, ...]

    @property
    def name(self) -> str:
        return variant_label(self.specs)


class Place(NamedTuple):
    """Where a step runs: torch's word for the device, the dtype of its parameters, and the number of its ranks."""

    device: str
    dtype: str
    world_size: int


def candidate(specs: Techniques) -> Candidate:
    """Raises `UsageError` for techniques that do not go together."""
    return Candidate(specs, compose(specs))


def shelf(
    variants: Iterable[Techniques], place: Place, goal: Goal
) -> tuple[tuple[Candidate, ...], tuple[LeftOut, ...]]:
    """The variants that can act there, and those that are left out with the reason."""
    candidates, left_out = [], []
    for specs in variants:
        found = candidate(specs)
        if not found.techniques:
            continue
        reason = _refusal(found, place, goal)
        if reason:
            left_out.append(LeftOut(name=found.name, reason=reason))
        else:
            candidates.append(found)
    return tuple(candidates), tuple(left_out)


def _refusal(found: Candidate, place: Place, goal: Goal) -> str:
    ranks = min_world_size(found.specs)
    if ranks > place.world_size:
        return f"needs at least {ranks} ranks: --world-size {ranks}"
    other = next((_OTHER_WORK[each.name] for each in found.techniques if each.name in _OTHER_WORK), "")
    if other and not (goal == "cost" and all(each.name != "seq" for each in found.techniques)):
        return other
    emulated = (each.emulated(torch.device(place.device)) for each in found.techniques if place.device == "cpu")
    return refusal_of(found.specs, place.device, place.dtype) or next(filter(None, emulated), "")


def risk(techniques: Iterable[Technique]) -> Risk:
    """What becomes of the loss with all of some techniques: the loosest of their tolerances."""
    rules = [technique.parity() for technique in techniques]
    free = [rule.basis for rule in rules if rule.relative is None]
    if free:
        return Risk(comparable=False, tolerance=None, basis="; ".join(dict.fromkeys(free)))
    loosest = max(rules, key=lambda rule: rule.relative or 0.0)
    return Risk(comparable=True, tolerance=loosest.relative, basis=loosest.basis)
