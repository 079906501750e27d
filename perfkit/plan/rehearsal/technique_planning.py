"""Selects the techniques of a plan, without those that do not affect it, with remarks."""

from collections.abc import Sequence

from perfkit.core.errors import UnavailableError
from perfkit.core.note import Note, make_note
from perfkit.core.spec import TechniqueSpec
from perfkit.techniques.base.technique import PlanMode, Technique
from perfkit.techniques.compose import compose_techniques


def select_planned_techniques(specs: Sequence[TechniqueSpec]) -> tuple[tuple[Technique, ...], tuple[Note, ...]]:
    """The techniques to apply to a step on fake tensors, in order, and a note on each that runs differently.

    Raises `UnavailableError` with the reason if one cannot be planned, and the errors of `compose_techniques`.
    """
    applied, remarks = [], []
    for technique in compose_techniques(specs):
        plannable = technique.plannable()
        if plannable.how is PlanMode.NOT:
            raise UnavailableError(f"{technique.name} cannot be planned: {plannable.reason}")
        if plannable.how is PlanMode.APPLIED:
            applied.append(technique)
        if plannable.reason:
            text = f"{technique.name}: {plannable.reason}"
            remarks.append(make_note("plan.technique", text, technique=technique.name))
    return tuple(applied), tuple(remarks)
