"""The report on advice: techniques ranked for one step, before any is measured."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby

from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown
from perfkit.core.units import format_bytes, format_seconds
from perfkit.plan.advise.advice import Advice, AdviceOption, ExcludedVariant
from perfkit.store.summary import ADVICE_FILE, SUMMARY_FILE, ReportSummary, RowFigures
from perfkit_reports.document.blocks import Block, Facts, Group, Section, Table, Text, Tile
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, RawTable
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.advice import advice_cells, advice_headline
from perfkit_reports.subjects.advice.advice_steps import build_next_steps
from perfkit_reports.subjects.advice.advised_bars import build_advised_charts
from perfkit_reports.subjects.tables import make_list, make_table

_ROWS = 12  # options on a page before the rest is unfolded
_SCHEMA = {
    "technique": str,
    "saving_s": float,
    "saving_low_s": float,
    "saving_high_s": float,
    "basis": str,
    "peak_bytes": float,
    "saving_bytes": float,
    "fits": bool,
    "largest_batch": int,
    "comparable": bool,
    "tolerance": float,
    "measured_time_ratio": float,
    "measured_peak_bytes": int,
}


def build_document(advice: Advice) -> Document:
    """The best combination, the options beside each other, and the commands that measure them."""
    return Document(
        kind="advice",
        title=f"Advice for {advice.name} on {advice.device}",
        headline=advice_headline.build_headline(advice),
        perfkit=advice.perfkit,
        created_at=advice.created_at,
        eyebrow=("Advice", advice.name, advice.device, advice.created_at[:10]),
        lead=tuple(advice_headline.list_remarks(advice)),
        tiles=tuple(_build_tiles(advice)),
        summary=(*_build_picture(advice), *_build_options(advice), *_build_reasons(advice), *build_next_steps(advice)),
        sections=(
            _build_limits(advice),
            Section("method", "Method", tuple(_build_method(advice)), folded=True),
        ),
        warnings=advice.notes,
        data=(RawTable("options", _SCHEMA, partial(_list_rows, advice)),),
        raw={ADVICE_FILE: advice, SUMMARY_FILE: _summarize_advice(advice)},
        saves=ADVICE_FILE,
    )


def list_variants(advice: Advice) -> tuple[AdviceOption, ...]:
    """What fits where the best combination does not, that combination, then the options: each once."""
    first = [option for option in (advice.fitting, advice.best) if option is not None]
    return tuple({option.name: option for option in (*first, *advice.options)}.values())


def _build_tiles(advice: Advice) -> Iterator[Tile]:
    if advice.step_s is not None:
        yield Tile("Step time now", Cell(format_seconds(advice.step_s), detail=advice.device))
    if advice.peak_bytes is not None:
        peak = advice.peak_bytes
        yield Tile("Peak memory now", Cell(advice_cells.format_peak(peak), detail="planned"))
    if advice.limit_bytes is not None:
        yield Tile("Memory limit", Cell(format_bytes(advice.limit_bytes), detail="per rank"))


def _build_picture(advice: Advice) -> Iterator[Block]:
    """Bars of what may improve the goal; of all options where nothing is known to."""
    best = tuple(option for option in (advice.fitting, advice.best) if option is not None)
    options = (*best, *advice_headline.list_alternatives(advice)) or advice.options
    charts = tuple(build_advised_charts(advice, options))
    if charts:
        yield Group(id="picture", blocks=charts, beside=True, weight=Weight.BRIEF)


def _build_options(advice: Advice) -> Iterator[Table]:
    options = list_variants(advice)
    yield from make_table(
        "options",
        "Techniques",
        _build_columns(advice),
        options,
        "technique",
        limit=_ROWS,
        details=partial(_build_details, {option.name: place for place, option in enumerate(options)}),
        emphasis=lambda option: advice.best is not None and option.name == advice.best.name,
        caption=f"Ranked by {advice.goal}{'' if advice.best is None else '; the best is marked'}.",
        weight=Weight.BRIEF,
    )


def _build_columns(advice: Advice) -> list[Column[AdviceOption]]:
    """Without memory where that of none is known; names have more room then."""
    options = list_variants(advice)
    columns: list[Column[AdviceOption]] = [
        Column("Technique", lambda option: Cell(option.name), numeric=False, weight=Weight.BRIEF),
        Column(advice_headline.TIMES[advice.goal].capitalize(), advice_cells.make_time_cell, weight=Weight.BRIEF),
    ]
    if any(option.peak_bytes is not None for option in options):
        columns.append(Column("Peak memory", advice_cells.make_memory_cell, weight=Weight.BRIEF))
    if advice.limit_bytes is not None:
        columns.append(Column("Fits", advice_cells.make_fits_cell, numeric=False, pill=True, weight=Weight.BRIEF))
    if advice.goal == "batch":
        columns.append(Column("Largest batch", _make_batch_cell, weight=Weight.BRIEF))
    columns.append(Column("Loss", advice_cells.make_loss_cell, numeric=False, weight=Weight.BRIEF))
    if any(option.measured is not None for option in options):
        columns.append(Column("Measured", advice_cells.make_measured_cell, weight=Weight.BRIEF))
    columns.append(Column("Why", advice_cells.make_reason_cell, numeric=False, wrap=True))
    return columns


def _make_batch_cell(option: AdviceOption) -> Cell:
    size = option.largest_batch
    return Cell("n/a", reason="unknown") if size is None else Cell(f"{size:,}", detail="estimate", value=size)


def _build_details(places: Mapping[str, int], option: AdviceOption) -> Sequence[Block]:
    lines = (
        *(f"Assumes: {assumption}" for assumption in option.assumptions),
        *(f"Unknown: {reason}" for reason in option.unknown_reasons),
        f"Loss: {option.risk.basis or 'n/a'}",
    )
    return (Text(id=f"basis-{places[option.name]}", lines=lines, style="list"),)


def _build_reasons(advice: Advice) -> Iterator[Block]:
    """Why the best combination saves."""
    if advice.best is not None:
        yield from make_list("why", advice.best.reasons, title=f"Why {advice.best.name}", weight=Weight.BRIEF)


def _build_limits(advice: Advice) -> Section:
    """What was not combined, and what cannot act here."""
    tables = (
        *_build_excluded("clashes", "Not combined with the best", advice.clashes),
        *_build_excluded("excluded", "Left out", advice.excluded),
    )
    blocks = tables or (Text(id="excluded", lines=("Every requested technique was ranked.",), style="empty"),)
    return Section("left-out", "Not combined, left out", blocks, nav="Left out", folded=True)


def _build_excluded(name: str, title: str, excluded: Sequence[ExcludedVariant]) -> tuple[Table, ...]:
    """A row for each reason."""
    ordered = sorted(excluded, key=lambda each: each.reason)
    rows = [(reason, [each.name for each in some]) for reason, some in groupby(ordered, lambda each: each.reason)]
    columns: tuple[Column[tuple[str, list[str]]], ...] = (
        Column("Techniques", lambda row: Cell(", ".join(row[1])), numeric=False, wrap=True),
        Column("Reason", lambda row: Cell(row[0]), numeric=False, wrap=True),
    )
    return make_table(name, title, columns, rows, "reason", data="")


def _build_method(advice: Advice) -> Iterator[Block]:
    items = (
        ("Subject", Cell(f"{advice.name} ({advice.kind})")),
        ("Device", Cell(advice.device)),
        ("Ranked by", Cell(advice.goal)),
        ("Command", Cell(advice.command or "n/a")),
        ("perfkit", Cell(advice.perfkit)),
        ("Date", Cell(advice.created_at)),
    )
    yield Facts(id="advised", title="Advised step", items=items)
    names_by_assumption: dict[str, list[str]] = {}
    for option in list_variants(advice):
        for assumption in option.assumptions:
            names_by_assumption.setdefault(assumption, []).append(option.name)
    lines = [f"{', '.join(names)}: {assumption}" for assumption, names in names_by_assumption.items()]
    yield from make_list("assumptions", lines, title="Assumptions")


def _list_rows(advice: Advice) -> list[dict[str, object]]:
    return [
        {
            "technique": option.name,
            "saving_s": None if option.saving_s is None else option.saving_s.value,
            "saving_low_s": None if option.saving_s is None else option.saving_s.low,
            "saving_high_s": None if option.saving_s is None else option.saving_s.high,
            "basis": None if option.saving_s is None else option.saving_s.basis,
            "peak_bytes": None if option.peak_bytes is None else option.peak_bytes.value,
            "saving_bytes": option.saving_bytes,
            "fits": option.fits,
            "largest_batch": option.largest_batch,
            "comparable": option.risk.comparable,
            "tolerance": option.risk.tolerance,
            "measured_time_ratio": None if option.measured is None else option.measured.time_ratio,
            "measured_peak_bytes": None if option.measured is None else option.measured.peak_bytes,
        }
        for option in list_variants(advice)
    ]


def _summarize_advice(advice: Advice) -> ReportSummary:
    """Figures of the best combination, or of the step as it is."""
    best = advice.best
    absent = Unknown(reason="advised, not run")
    step = advice.step_s
    if step is not None and best is not None and best.saving_s is not None:
        step -= best.saving_s.value
    peak = advice.peak_bytes if best is None else best.peak_bytes
    return ReportSummary(
        kind="advice",
        name=advice.name,
        created_at=advice.created_at,
        device=advice.device,
        figures=RowFigures(
            subject="" if best is None else best.name,
            step=absent if step is None else _make_modeled(step, "s"),
            throughput=absent,
            peak=absent if peak is None else _make_modeled(peak.value, "bytes"),
            mfu=absent,
        ),
        headline=advice_headline.build_headline(advice),
    )


def _make_modeled(value: float, unit: str) -> Measurement:
    return Measurement(value=value, unit=unit, how=QuantityOrigin.MODELED, source="advice")
