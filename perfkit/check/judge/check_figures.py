"""Reads the figures of an analyzed variant for every quantity of a check, or the reasons for missing ones."""

import math
from collections.abc import Sequence

from perfkit.analysis.model.suite import Variant
from perfkit.check.judge.quantities import QUANTITIES, JudgingMethod
from perfkit.check.judge.readings import explain_missing
from perfkit.core.record.quantity import Unknown
from perfkit.core.spec import Schedule, Struct
from perfkit.store.baseline import StoredVariant

# More losses do not help to tell models apart, and their number depends on the warm-up.
LOSSES = Schedule().parity

# The quantity judged from losses.
PARITY = "parity"

_NOT_STORED = "not in the baseline"


class RunFigures(Struct):
    """The figures of one variant, by the name of the quantity.

    `exact` are counts that all processes share, `processes` has one figure per process. `losses` are those of the first
    steps, None if not finite. `missing` has the reason for every other quantity.
    """

    exact: dict[str, float] = {}
    processes: dict[str, tuple[float, ...]] = {}
    losses: tuple[float | None, ...] = ()
    missing: dict[str, str] = {}


def read_figures(variant: Variant) -> RunFigures:
    """All figures of a variant, from perfkit's own runs or an attached loop."""
    read = {quantity.name: quantity.read(variant) for quantity in QUANTITIES if quantity.read is not None}
    figures = {name: value for name, value in read.items() if not isinstance(value, Unknown)}
    exact = {quantity.name for quantity in QUANTITIES if quantity.judging is JudgingMethod.EXACT}
    losses = variant.losses[:LOSSES]
    missing = {name: value.reason for name, value in read.items() if isinstance(value, Unknown)}
    if not losses:
        missing[PARITY] = _explain_no_losses(variant)
    return RunFigures(
        exact={name: value[0] for name, value in figures.items() if name in exact},
        processes={name: value for name, value in figures.items() if name not in exact},
        losses=losses,
        missing=missing,
    )


def pool_rounds(rounds: Sequence[RunFigures]) -> RunFigures:
    """Pool the figures of equal runs, one per round: varying quantities have one figure per process, in round order.

    A count that differs between rounds cannot be compared and is missing, with its values. Losses are the first
    round's.
    """
    first = rounds[0]
    exact, missing = {}, dict(first.missing)
    for name, value in first.exact.items():
        values = sorted({run.exact.get(name, math.nan) for run in rounds})
        if len(values) == 1:
            exact[name] = value
        else:
            missing[name] = f"differs between processes ({', '.join(f'{count:,.0f}' for count in values)})"
    return RunFigures(
        exact=exact,
        processes={
            name: tuple(value for run in rounds for value in run.processes.get(name, ())) for name in first.processes
        },
        losses=first.losses,
        missing=missing,
    )


def convert_to_stored(of: RunFigures) -> StoredVariant:
    """The figures stored in a baseline."""
    return StoredVariant(exact=of.exact, processes=of.processes, losses=of.losses)


def convert_from_stored(variant: StoredVariant) -> RunFigures:
    """The figures of a variant in a baseline."""
    known = variant.exact.keys() | variant.processes.keys() | ({PARITY} if variant.losses else set())
    return RunFigures(
        exact=variant.exact,
        processes=variant.processes,
        losses=variant.losses,
        missing={quantity.name: _NOT_STORED for quantity in QUANTITIES if quantity.name not in known},
    )


def _explain_no_losses(variant: Variant) -> str:
    if variant.loop is not None:
        return "losses of external loops are not recorded"
    return explain_missing(variant, "no losses were recorded")
