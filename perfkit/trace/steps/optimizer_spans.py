"""Finds the optimizers that step in a trace."""

from perfkit.trace.annotations import OPTIMIZER_STEP
from perfkit.trace.event_names import map_names
from perfkit.trace.model import Category, Trace


def find_optimizers(trace: Trace) -> tuple[str, ...]:
    """The classes of those whose steps were recorded, by name; empty where none was (other writers, C++)."""
    _, names = map_names(trace, trace.select_events(Category.RANGE, Category.OP), _parse_class)
    return tuple(sorted(set(names.values())))


def _parse_class(name: str) -> str | None:
    match = OPTIMIZER_STEP.match(name)
    return (match["optimizer"] or None) if match is not None else None
