"""The columns of the table of variants."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Measurement, Status
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.suite import cells, headline
from perfkit_reports.subjects.suite.look import styles

Cells = Callable[[Variant], Cell]


def is_measured(variant: Variant) -> bool:
    """Whether there are figures of it."""
    return variant.status == Status.OK or isinstance(variant.step_time, MedianEstimate)


def variants(analysis: Analysis) -> list[Column[Variant]]:
    """Without comparisons where there is nothing to compare with, and without what nobody measured."""
    if headline.is_alone(analysis):
        return [_named(analysis, "Variant"), _STEP_TIME, *_data(analysis), *_rates(analysis)]
    compared = [_STEP_TIME, _SPEED_UP, _VERDICT, *_data(analysis), *_rates(analysis)]
    return [_named(analysis, "Variant"), *compared, _LOSS, _ACTIVE]


def loops(analysis: Analysis) -> list[Column[Variant]]:
    """One process each, of one program: neither intervals nor techniques nor equal data."""
    return [_named(analysis, "Loop"), _STEP_TIME, *_data(analysis), *_rates(analysis)]


def _data(analysis: Analysis) -> list[Column[Variant]]:
    """Where somebody has a DataLoader."""
    waits = any(cells.data_wait(variant).value is not None for variant in analysis.variants)
    return [_DATA] if waits else []


def _named(analysis: Analysis, what: str) -> Column[Variant]:
    """The name of each with its marker in the charts, and how it ended if not well."""
    look = styles(analysis)

    def cell(variant: Variant) -> Cell:
        style = look[variant.name]
        ended = "" if variant.status == Status.OK else variant.status.value
        return Cell(variant.name, detail=ended, value=variant.name, swatch=(style.colour, style.symbol))

    return Column(what, cell, numeric=False, weight=Weight.BRIEF)


def _rates(analysis: Analysis) -> list[Column[Variant]]:
    """Throughput, its cost where there is a price, memory, utilisation, and energy where somebody measured it."""
    known = any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants)
    energy = [_ENERGY] if known else []
    return [_throughput(analysis.variants), *_cost(analysis), _PEAK_MEMORY, _MFU, *energy]


def _of_measured(title: str, cell: Cells, **shown: Any) -> Column[Variant]:
    """A dash for what was not measured: why is told once, and not in every column."""
    return Column(title, lambda variant: cell(variant) if is_measured(variant) else Cell(NOTHING), **_BRIEF | shown)


def _throughput(variants: Sequence[Variant]) -> Column[Variant]:
    """With its unit in the title, where all have the same."""
    rates = {cells.throughput_unit(variant) for variant in variants if is_measured(variant)}
    if len(rates) != 1:
        return _of_measured("Throughput", cells.throughput)
    return _of_measured(rates.pop(), cells.rate, help="throughput")


def _cost(analysis: Analysis) -> Iterator[Column[Variant]]:
    """With what it is of in the title, where that is the same for all."""
    price = analysis.price
    if price is None:
        return
    of = dict.fromkeys(cells.cost_unit(variant) for variant in analysis.variants if is_measured(variant))
    title = f"{price.currency or 'Cost'}/{next(iter(of))}" if len(of) == 1 else "Cost"
    told = f"at {price.label}, the price of all that a run uses, whatever part of it a variant needs"
    yield _of_measured(title, lambda variant: cells.cost(variant, price), help=f"cost {told}")


_BRIEF = {"weight": Weight.BRIEF}
_STEP_TIME = _of_measured("Step time", cells.step_time)
_DATA = _of_measured("Data wait", cells.data_wait, help="share of the time")
_SPEED_UP_HELP = "step time of the baseline over its own; time per token or sample where batches differ"
_SPEED_UP = _of_measured(
    "Speed-up",
    cells.marked_speed_up,
    help=_SPEED_UP_HELP,
)
_VERDICT = _of_measured("Verdict", cells.verdict, numeric=False, weight=Weight.NORMAL)
_PEAK_MEMORY = _of_measured("Peak memory", cells.peak_memory)
_MFU_HELP = "the model's own FLOPs over the peak; HFU also counts recomputed ones"
_MFU = _of_measured("MFU", cells.utilisation, help=_MFU_HELP)
_ENERGY = _of_measured("Energy a step", cells.energy, weight=Weight.NORMAL)
_LOSS_HELP = "max relative difference from the baseline's loss on the same data and seed; several losses are summed"
_LOSS = _of_measured("Loss", cells.loss_parity, numeric=False, help=_LOSS_HELP)
_ACTIVE = _of_measured("Verified active", cells.active, numeric=False, help="every claim of its techniques holds")
