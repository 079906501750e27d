"""The techniques of a plan: all but those that change nothing of what is planned, with what must be said of them."""

from collections.abc import Sequence

from perfkit.errors import UnavailableError
from perfkit.spec import TechniqueSpec
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.technique import PlanMode, Technique


def select_planned_techniques(specs: Sequence[TechniqueSpec]) -> tuple[tuple[Technique, ...], tuple[str, ...]]:
    """The techniques to apply to a step on fake tensors, in order, and a line on each that runs otherwise.

    Raises `UnavailableError` with the reason where one cannot be planned, and what `compose_techniques` does.
    """
    applied, said = [], []
    for technique in compose_techniques(specs):
        plannable = technique.plannable()
        if plannable.how is PlanMode.NOT:
            raise UnavailableError(f"{technique.name} cannot be planned: {plannable.reason}")
        if plannable.how is PlanMode.APPLIED:
            applied.append(technique)
        if plannable.reason:
            said.append(f"{technique.name}: {plannable.reason}")
    return tuple(applied), tuple(said)


def is_compiled(specs: Sequence[TechniqueSpec]) -> bool:
    """Whether a run compiles what is planned as it runs eagerly."""
    return any(technique.compiles() for technique in compose_techniques(specs))
