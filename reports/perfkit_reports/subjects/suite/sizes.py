"""Size sweeps, and searches for the largest batch."""

import re
from collections.abc import Iterator

from perfkit.analysis.model.scaling import Sweep
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.suite.sweeps import PROPORTIONAL
from perfkit.core import units
from perfkit.store.layout import BatchSearch, BatchTrial
from perfkit_reports.charts import sweep as charts
from perfkit_reports.document.blocks import Block, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column


def build_sections(analysis: Analysis) -> Iterator[Section]:
    """Sections of swept and searched sizes; none without any."""
    blocks: list[Block] = [_build_sweep(sweep, place) for place, sweep in enumerate(analysis.sweeps)]
    blocks += [_build_search(search, place) for place, search in enumerate(analysis.searches)]
    if blocks:
        yield Section("sizes", "Sizes", tuple(blocks))


def _build_sweep(sweep: Sweep, place: int) -> Group:
    name = f"sweep-{place}-{re.sub('[^a-z0-9]+', '-', sweep.variant.lower()).strip('-')}"
    chart = filter(None, (charts.build_time_chart(sweep, name), charts.build_memory_chart(sweep, name)))
    blocks: tuple[Block, ...] = (
        Text(id=f"{name}-break", lines=(describe_sweep(sweep),)),
        Group(id=f"{name}-charts", blocks=tuple(chart), beside=True),
    )
    return Group(id=name, title=sweep.variant, blocks=blocks)


def describe_sweep(sweep: Sweep) -> str:
    """The saturation point and the best value."""
    first, last = sweep.points[0], sweep.points[-1]
    best = min(sweep.points, key=lambda point: point.unit_s)
    least = f"Lowest time per {sweep.unit}: {units.format_seconds(best.unit_s)} at {best.value:g}."
    grows = f"step time ~ {sweep.parameter}^p, p ≥ {PROPORTIONAL:g}"
    if sweep.saturates_at is None:
        larger = f"; larger values may reduce time per {sweep.unit} further" if best is last else ""
        return (
            f"No saturation up to {last.value:g}: step time still grows sublinearly (p = {last.growth or 0:.2f})"
            f"{larger}. {least}"
        )
    if sweep.saturates_at == first.value:
        return (
            f"Saturated from the smallest value: step time grows proportionally ({grows}), so larger values gain "
            f"little. {least}"
        )
    return (
        f"The device saturates at {sweep.saturates_at:g}: above it, step time grows proportionally ({grows}); "
        f"below it, larger values reduce time per {sweep.unit}. {least}"
    )


def _build_search(search: BatchSearch, place: int) -> Table:
    limit = "an unknown limit" if search.limit_bytes is None else units.format_bytes(search.limit_bytes)
    return Table(
        id=f"batch-search-{place}",
        title=f"Largest batch search: {search.requested_variant} → {search.selected_variant}"
        if search.selected_variant
        else f"Largest batch search: none found for {search.requested_variant}",
        columns=[
            Column("Batch", _make_batch_cell, numeric=False),
            Column("Fits", _make_fits_cell, numeric=False),
            Column("Peak memory", _make_peak_cell),
            Column("Trial time", _make_duration_cell),
        ],
        rows=search.trials,
        what="trial",
        caption=(
            f"Trials in order. A batch fits if a few steps leave {units.format_percent(search.margin, 0)} of {limit}"
            f", a rank's memory limit, free. The search stops at {search.max_size:,}."
        ),
    )


def _make_batch_cell(trial: BatchTrial) -> Cell:
    return Cell(f"{trial.size:,} sample{'s' if trial.size > 1 else ''}", value=float(trial.size))


def _make_duration_cell(trial: BatchTrial) -> Cell:
    return (
        Cell(units.format_seconds(trial.seconds), value=trial.seconds)
        if trial.seconds
        else make_unknown_cell("not run")
    )


def _make_fits_cell(trial: BatchTrial) -> Cell:
    if trial.fits is None:
        return make_unknown_cell(trial.reason)
    return Cell("yes" if trial.fits else "no", detail=trial.reason)


def _make_peak_cell(trial: BatchTrial) -> Cell:
    if trial.peak_bytes is None:
        return make_unknown_cell(trial.reason or "memory unknown")
    return Cell(units.format_bytes(trial.peak_bytes), value=trial.peak_bytes)
