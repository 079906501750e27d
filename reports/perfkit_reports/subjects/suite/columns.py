"""The columns of the table of variants."""

from collections.abc import Callable, Sequence

from perfkit.analysis.model.estimate import Estimate
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
    return variant.status == Status.OK or isinstance(variant.step_time, Estimate)


def variants(analysis: Analysis) -> list[Column[Variant]]:
    """Without comparisons where there is nothing to compare with, and without what nobody measured."""
    compared = () if headline.is_alone(analysis) else (_SPEED_UP, _VERDICT)
    checked = () if headline.is_alone(analysis) else (_LOSS, _ACTIVE)
    return [named(analysis, "Variant"), _STEP_TIME, *compared, *rates(analysis), *checked]


def loops(analysis: Analysis) -> list[Column[Variant]]:
    """One process each, of one program: neither intervals nor techniques nor equal data."""
    waits = any(variant.loop and variant.loop.data_wait_share is not None for variant in analysis.variants)
    return [named(analysis, "Loop"), _STEP_TIME, *([DATA] if waits else []), *rates(analysis)]


def named(analysis: Analysis, what: str) -> Column[Variant]:
    """The name of each with its marker in the charts, and how it ended if not well."""
    look = styles(analysis)

    def cell(variant: Variant) -> Cell:
        style = look[variant.name]
        ended = "" if variant.status == Status.OK else variant.status.value
        return Cell(variant.name, detail=ended, value=variant.name, swatch=(style.colour, style.symbol))

    return Column(what, cell, numeric=False, weight=Weight.BRIEF)


def rates(analysis: Analysis) -> list[Column[Variant]]:
    """Throughput, memory, utilisation, and energy where somebody measured it."""
    known = any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants)
    return [_throughput(analysis.variants), PEAK_MEMORY, MFU, *([_ENERGY] if known else [])]


def _of_measured(cell: Cells) -> Cells:
    """A dash for what was not measured: why is told once, and not in every column."""
    return lambda variant: cell(variant) if is_measured(variant) else Cell(NOTHING)


def _throughput(variants: Sequence[Variant]) -> Column[Variant]:
    """With its unit in the title, where all have the same."""
    found = {cells.throughput_unit(variant) for variant in variants if is_measured(variant)}
    if len(found) != 1:
        return Column("Throughput", _of_measured(cells.throughput), weight=Weight.BRIEF)
    return Column(next(iter(found)), _of_measured(cells.rate), help="throughput", weight=Weight.BRIEF)


_STEP_TIME = Column[Variant]("Step time", _of_measured(cells.step_time), weight=Weight.BRIEF)
DATA = Column[Variant]("Data wait", _of_measured(cells.data_wait), help="share of the time", weight=Weight.BRIEF)
_SPEED_UP = Column[Variant](
    "Speed-up", _of_measured(cells.marked_speed_up), help="step time of the baseline over its own", weight=Weight.BRIEF
)
_VERDICT = Column[Variant]("Verdict", _of_measured(cells.verdict), numeric=False)
PEAK_MEMORY = Column[Variant]("Peak memory", _of_measured(cells.peak_memory), weight=Weight.BRIEF)
MFU = Column[Variant](
    "MFU",
    _of_measured(cells.utilisation),
    help="the model's own FLOPs over the peak; HFU also counts recomputed ones",
    weight=Weight.BRIEF,
)
_ENERGY = Column[Variant]("Energy a step", _of_measured(cells.energy))
_LOSS = Column[Variant](
    "Loss",
    _of_measured(cells.loss_parity),
    numeric=False,
    help="max relative loss difference from the baseline, on the same data and seed",
    weight=Weight.BRIEF,
)
_ACTIVE = Column[Variant](
    "Verified active",
    _of_measured(cells.active),
    numeric=False,
    help="every claim of its techniques holds",
    weight=Weight.BRIEF,
)
