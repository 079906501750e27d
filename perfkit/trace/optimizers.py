"""Which optimizers a trace shows stepping."""

from perfkit.trace.annotations import OPTIMIZER_STEP
from perfkit.trace.naming import numbered
from perfkit.trace.read import Category, Trace


def optimizers_of(trace: Trace) -> tuple[str, ...]:
    """The classes of those whose steps were recorded, by name; empty where none was (other writers, C++)."""
    _, names = numbered(trace, trace.select_events(Category.RANGE, Category.OP), _class)
    return tuple(sorted(set(names.values())))


def _class(name: str) -> str | None:
    match = OPTIMIZER_STEP.match(name)
    return (match["optimizer"] or None) if match is not None else None
