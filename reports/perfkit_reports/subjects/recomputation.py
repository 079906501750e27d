"""Searches for the least recomputation that fits, of a suite and of a plan."""

from collections.abc import Iterable, Iterator

from perfkit import units
from perfkit.store.layout import RecomputationSearch, RecomputationTrial
from perfkit_reports.document.blocks import Section, Table
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column


def build_sections(searches: Iterable[RecomputationSearch]) -> Iterator[Section]:
    """None where nothing was searched for."""
    tables = tuple(_build_table(search, place) for place, search in enumerate(searches) if search.trials)
    if tables:
        yield Section("recomputation", "Least recomputation", tables)


def describe_searches(searches: Iterable[RecomputationSearch]) -> Iterator[str]:
    """What each search found, in a sentence."""
    for search in searches:
        found = next((trial for trial in search.trials if trial.variant == search.found), None)
        if found is not None:
            peaks = ((found.planned_bytes, "planned"), (found.measured_bytes, "measured"))
            known = ", ".join(f"{units.format_bytes(peak)} {how}" for peak, how in peaks if peak is not None)
            yield f"{search.asked} became {search.found}: a peak of {known}"


def _build_table(search: RecomputationSearch, place: int) -> Table:
    return Table(
        id=f"recomputation-{place}",
        title=f"{search.asked} became {search.found}" if search.found else f"{search.asked}: {search.reason}",
        columns=[
            Column("Variant", lambda trial: Cell(trial.variant), numeric=False),
            Column("Fits", _make_fits_cell, numeric=False),
            Column("Planned peak", lambda trial: _make_peak_cell(trial.planned_bytes, trial.reason)),
            Column(
                "Measured peak", lambda trial: _make_peak_cell(trial.measured_bytes, trial.reason or "nothing was run")
            ),
            Column("Trial took", _make_duration_cell),
        ],
        rows=search.trials,
        what="trial",
        caption="In the order in which they were planned; the peak is that of torch's allocator, and fits within "
        f"{units.format_bytes(search.limit_bytes)}. The first that fits by the plan is run for a few steps.",
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
        else make_unknown_cell("nothing was run")
    )
