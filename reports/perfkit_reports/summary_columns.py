"""The columns of the table of variants: those that have something to tell."""

from collections.abc import Callable
from dataclasses import dataclass

from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.record import Measurement
from perfkit_reports import cells, headline
from perfkit_reports.cells import Cell


@dataclass(frozen=True)
class SummaryColumn:
    """`style` is the class of its cells on the page."""

    title: str
    cell: Callable[[Variant], Cell]
    style: str = ""


STEP_TIME = SummaryColumn("Step time", cells.step_time, "num")
DATA = SummaryColumn("Waits for data", cells.data_wait, "num")
SPEED_UP = SummaryColumn("Speed-up", cells.speed_up, "num strong")
VERDICT = SummaryColumn("Verdict", cells.verdict)
THROUGHPUT = SummaryColumn("Throughput", cells.throughput, "num")
PEAK_MEMORY = SummaryColumn("Peak memory", cells.peak_memory, "num")
MFU = SummaryColumn("MFU", cells.utilisation, "num")
ENERGY = SummaryColumn("Energy a step", cells.energy, "num")
LOSS = SummaryColumn("Loss", cells.loss_parity)
ENGAGED = SummaryColumn("Engaged", cells.engaged)
_ALL = (STEP_TIME, DATA, SPEED_UP, VERDICT, THROUGHPUT, PEAK_MEMORY, MFU, ENERGY, LOSS, ENGAGED)


def summary_columns(analysis: Analysis) -> list[SummaryColumn]:
    """Without comparisons where there is nothing to compare with, and without what nobody measured."""
    hidden: list[SummaryColumn] = []
    if headline.alone(analysis):
        hidden += [SPEED_UP, VERDICT, LOSS, ENGAGED]
    if headline.attached(analysis):
        # One process each, of one program: neither intervals nor techniques nor equal data.
        hidden += [SPEED_UP, VERDICT, LOSS, ENGAGED]
    if not any(variant.loop and variant.loop.data_wait_share is not None for variant in analysis.variants):
        hidden.append(DATA)
    if not any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants):
        hidden.append(ENERGY)
    return [column for column in _ALL if column not in hidden]
