"""Columns of the table of variants."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.analysis.pipeline.fastest_variant import is_sound
from perfkit.core.record.quantity import Measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit_reports.document.cells import Cell, Span
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.suite import suite_cells, suite_headline
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles

Cells = Callable[[Variant], Cell]


def is_measured(variant: Variant) -> bool:
    """True if the variant has figures."""
    return variant.status == RunStatus.OK or isinstance(variant.step_time, MedianEstimate)


def build_variant_columns(analysis: Analysis) -> list[Column[Variant]]:
    """Six columns, and the cost where a price was given; further figures are in a row's details.

    A lone variant, which is compared with nothing, has its rates instead.
    """
    if suite_headline.is_alone(analysis):
        return [
            _build_name_column(analysis, "Variant"),
            _STEP_TIME,
            *_list_data_columns(analysis),
            *_list_rate_columns(analysis),
        ]
    return [
        _build_name_column(analysis, "Variant"),
        _STEP_TIME,
        _build_speed_up_column(analysis),
        _PEAK_MEMORY,
        *_build_cost_columns(analysis),
        _LOSS,
        _ACTIVE,
    ]


def build_loop_columns(analysis: Analysis) -> list[Column[Variant]]:
    """Columns of loops: one process, no intervals, techniques or common data."""
    return [
        _build_name_column(analysis, "Loop"),
        _STEP_TIME,
        *_list_data_columns(analysis),
        *_list_rate_columns(analysis),
    ]


def _list_data_columns(analysis: Analysis) -> list[Column[Variant]]:
    """The data wait, if any variant has a DataLoader."""
    waits = any(suite_cells.make_data_wait_cell(variant).value is not None for variant in analysis.variants)
    return [_DATA] if waits else []


def _build_name_column(analysis: Analysis, what: str) -> Column[Variant]:
    """The variant's name with its chart marker, and its outcome if not ok, or that it does not count."""
    look = assign_variant_styles(analysis)

    def cell(variant: Variant) -> Cell:
        style = look[variant.name]
        ended = "" if variant.status == RunStatus.OK else variant.status.value
        if not ended and not is_sound(variant):
            ended = "does not count"
        return Cell(variant.name, detail=ended, value=variant.name, swatch=(style.color, style.symbol))

    return Column(what, cell, numeric=False, weight=Weight.BRIEF)


def _list_rate_columns(analysis: Analysis) -> list[Column[Variant]]:
    """Throughput, cost if a price is given, memory, utilization, and energy if measured."""
    known = any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants)
    energy = [_ENERGY] if known else []
    return [_build_throughput_column(analysis.variants), *_build_cost_columns(analysis), _PEAK_MEMORY, _MFU, *energy]


def _build_speed_up_column(analysis: Analysis) -> Column[Variant]:
    """The speed-up, its interval drawn on one axis for all variants."""
    ends = [end for variant in analysis.variants for end in suite_cells.list_speed_ends(variant)]
    low, high = min([1.0, *ends]), max([1.0, *ends])

    def place(speed_up: float) -> float:
        return (speed_up - low) / (high - low)

    def cell(variant: Variant) -> Cell:
        made, drawn = suite_cells.make_marked_speed_up_cell(variant), suite_cells.list_speed_ends(variant)
        if not drawn or low == high:  # equal speeds have no axis
            return made
        return replace(made, span=Span(place(drawn[0]), place(drawn[1]), place(drawn[2]), place(1.0)))

    return _build_measured_column("Speed-up", cell, help=_SPEED_UP_HELP)


def _build_measured_column(title: str, cell: Cells, **shown: Any) -> Column[Variant]:
    """A dash for unmeasured figures: the reason is given once, not per column."""
    return Column(title, lambda variant: cell(variant) if is_measured(variant) else Cell(NOTHING), **_BRIEF | shown)


def _build_throughput_column(variants: Sequence[Variant]) -> Column[Variant]:
    """Throughput, with the unit in the title if all variants share it."""
    rates = {suite_cells.get_throughput_unit(variant) for variant in variants if is_measured(variant)}
    if len(rates) != 1:
        return _build_measured_column("Throughput", suite_cells.make_throughput_cell)
    return _build_measured_column(rates.pop(), suite_cells.make_rate_cell, help="throughput")


def _build_cost_columns(analysis: Analysis) -> Iterator[Column[Variant]]:
    """Cost, with its unit in the title if all variants share it."""
    price = analysis.price
    if price is None:
        return
    of = dict.fromkeys(suite_cells.get_cost_unit(variant) for variant in analysis.variants if is_measured(variant))
    title = f"{price.currency or 'Cost'}/{next(iter(of))}" if len(of) == 1 else "Cost"
    basis = f"at {price.label} for all hardware in the run, idle hardware included"
    yield _build_measured_column(
        title, lambda variant: suite_cells.make_cost_cell(variant, price), help=f"cost {basis}"
    )


_BRIEF = {"weight": Weight.BRIEF}
_STEP_TIME = _build_measured_column("Step time", suite_cells.make_step_time_cell)
_DATA = _build_measured_column("Data wait", suite_cells.make_data_wait_cell, help="share of the step time")
_SPEED_UP_HELP = "baseline step time / variant step time; per token or sample if batches differ"
_PEAK_MEMORY = _build_measured_column("Peak memory", suite_cells.make_peak_memory_cell)
_MFU_HELP = "model FLOPs over peak FLOPs; HFU includes recomputed FLOPs"
_MFU = _build_measured_column("MFU", suite_cells.make_utilization_cell, help=_MFU_HELP)
_ENERGY = _build_measured_column("Energy per step", suite_cells.make_energy_cell, weight=Weight.NORMAL)
_LOSS_HELP = (
    "max relative difference from the baseline's loss and its tolerance, same data and seed; multiple losses are summed"
)
_LOSS = _build_measured_column("Loss", suite_cells.make_loss_cell, numeric=False, help=_LOSS_HELP)
_ACTIVE = _build_measured_column(
    "Applied", suite_cells.make_active_cell, numeric=False, help="checks that the techniques took effect"
)
