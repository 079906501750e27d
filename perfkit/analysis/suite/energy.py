"""Energy of a variant: ranks add up, and of several processes it is the median."""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from perfkit.analysis.suite.runs import VariantRuns, sum_over_ranks
from perfkit.core.record import Measurement, Quantity, RankRecord, Unknown
from perfkit.core.units import format_si


@dataclass(frozen=True)
class EnergyFigures:
    """Energy per step (J) and per token or sample (`J/token`), and mean power (W), over all ranks."""

    step: Quantity
    unit: Quantity
    power: Quantity


def compute_energy(runs: VariantRuns, why: str) -> EnergyFigures:
    """Compute energy from the records; `why` is the reason where there are none."""
    step = _combine_processes(runs, lambda record: record.energy, why)
    return EnergyFigures(step, _divide_by_units(runs, step), _combine_processes(runs, lambda record: record.power, why))


def _combine_processes(runs: VariantRuns, pick: Callable[[RankRecord], Quantity], why: str) -> Quantity:
    """The median over the processes that know it; the first one's reason where none does."""
    quantities = [sum_over_ranks([pick(rank.record) for rank in run.ranks], why) for run in runs.runs if run.complete]
    known = [quantity for quantity in quantities if isinstance(quantity, Measurement)]
    if not known:
        return next(iter(quantities), Unknown(reason=why))
    if len(known) == 1:
        return known[0]
    values = sorted(measurement.value for measurement in known)
    first = known[0]
    spread = f"{format_si(values[0], first.unit)} to {format_si(values[-1], first.unit)}"
    source = f"{first.source}; median of {len(known)} processes, {spread}"
    return Measurement(value=median(values), unit=first.unit, how=first.how, source=source)


def _divide_by_units(runs: VariantRuns, step: Quantity) -> Quantity:
    units = runs.units_per_step
    if isinstance(step, Unknown):
        return step
    if isinstance(units, str):
        return Unknown(reason=units)
    unit = f"J/{runs.unit.removesuffix('s') or 'unit'}"
    source = f"energy per step / {units:,} {runs.unit or 'units'}"
    return Measurement(value=step.value / units, unit=unit, how=step.how, source=source)
