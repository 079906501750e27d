"""Searches for the least recomputation that fits, in suites and plans."""

from collections.abc import Iterable, Iterator

from perfkit.core import units
from perfkit.store.layout import RecomputationSearch, RecomputationTrial
from perfkit_reports.document.blocks import Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column


def build_sections(searches: Iterable[RecomputationSearch]) -> Iterator[Section]:
    """The section; none without a search."""
    tables = tuple(_build_table(search, place) for place, search in enumerate(searches) if search.trials)
    if tables:
        yield Section("recomputation", "Least recomputation", tables)


def describe_searches(searches: Iterable[RecomputationSearch]) -> Iterator[str]:
    """One sentence per search."""
    for search in searches:
        chosen = next((trial for trial in search.trials if trial.variant == search.selected_variant), None)
        if chosen is not None:
            peaks = ((chosen.planned_bytes, "planned"), (chosen.measured_bytes, "measured"))
            known = ", ".join(f"{units.format_bytes(peak)} {how}" for peak, how in peaks if peak is not None)
            yield f"{search.requested_variant} → {search.selected_variant}: peak {known}"


def _build_table(search: RecomputationSearch, place: int) -> Table:
    return Table(
        id=f"recomputation-{place}",
        title=f"{search.requested_variant} → {search.selected_variant}"
        if search.selected_variant
        else f"{search.requested_variant}: {search.reason}",
        columns=[
            Column("Variant", lambda trial: Cell(trial.variant), numeric=False),
            Column("Fits", _make_fits_cell, numeric=False),
            Column("Planned peak", lambda trial: _make_peak_cell(trial.planned_bytes, trial.reason)),
            Column("Measured peak", lambda trial: _make_peak_cell(trial.measured_bytes, trial.reason or "not run")),
            Column("Trial time", _make_duration_cell),
        ],
        rows=search.trials,
        what="trial",
        caption=(
            "Trials in order. The peak is that of torch's allocator and must fit in "
            f"{units.format_bytes(search.limit_bytes)}. The first variant that fits by plan runs for a few steps."
        ),
    )


def _make_fits_cell(trial: RecomputationTrial) -> Cell:
    if trial.fits is None:
        return make_unknown_cell(trial.reason)
    return Cell("yes" if trial.fits else "no", detail=trial.reason)


def _make_peak_cell(size: float | None, why: str) -> Cell:
    return make_unknown_cell(why) if size is None else Cell(units.format_bytes(size), value=size)


def _make_duration_cell(trial: RecomputationTrial) -> Cell:
    return (
        Cell(units.format_seconds(trial.seconds), value=trial.seconds)
        if trial.seconds
        else make_unknown_cell("not run")
    )
