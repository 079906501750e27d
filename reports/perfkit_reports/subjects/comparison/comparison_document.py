"""The report on a comparison of runs."""

from collections.abc import Iterator
from dataclasses import replace as dataclass_replace

from msgspec.structs import replace

from perfkit.analysis.compare.compared_figures import PEAK, STEP, TRACED_STEP
from perfkit.analysis.model.comparison import ComparedFigure, ComparedRun, Comparison, EnvironmentMismatch
from perfkit.analysis.model.difference import ChangeRow, GroupChange, TraceDifference
from perfkit.analysis.model.launches import StreamRow
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.trace import RankTrace, StepRow
from perfkit.analysis.trace.op_tables import LONGEST_ROWS
from perfkit.core.note import Note
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.units import format_seconds
from perfkit.store.summary import COMPARISON_FILE, SUMMARY_FILE, ReportSummary, RowFigures, compute_digest
from perfkit_reports.cells import make_short_cell, make_text_cell
from perfkit_reports.charts import curves, step_times
from perfkit_reports.charts.curves import StepCurve
from perfkit_reports.charts.roofline_plane import RooflinePlane, RooflineSeries, select_ceilings
from perfkit_reports.document.blocks import Bar, Block, Group, Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import Column, RawTable, build_owned_data, build_plain_data
from perfkit_reports.document.weight import Weight
from perfkit_reports.holders import Holder
from perfkit_reports.notes import map_texts
from perfkit_reports.palette import Style, assign_styles
from perfkit_reports.subjects import memory as of_memory
from perfkit_reports.subjects.comparison import categories, compare_headline, compared_ranks, figures, variants
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace import flame, step, trace_changes
from perfkit_reports.subjects.trace.selected_items import list_selected_items
from perfkit_reports.subjects.trace.trace_data import build_cost_tables

# Pictures of all work, whose changes come before them.
_FOLDED = ("flame", "roofline")
_UNTRACED = "No run has a trace with steps."


def build_document(comparison: Comparison) -> Document:
    """Draw a comparison, without empty sections."""
    optional_sections = (
        _build_changes(comparison),
        _build_time(comparison),
        _build_flame(comparison),
        _build_roofline(comparison),
        _build_memory(comparison),
        _build_steps(comparison),
    )
    return Document(
        kind="comparison",
        title=comparison.title,
        headline=f"{variants.build_headline(comparison) or compare_headline.build_headline(comparison)}.",
        perfkit=comparison.perfkit,
        created_at=comparison.created_at,
        eyebrow=(f"{len(comparison.sides)} runs", comparison.created_at[:10]),
        lead=tuple(
            f"{line}." for line in (*_list_baseline_remarks(comparison), *compare_headline.list_remarks(comparison))
        ),
        summary=(
            *variants.build_blocks(comparison),
            figures.build_table(comparison),
            *compared_ranks.build_rank_tables(comparison),
        ),
        warnings=map_texts("{}.".format, (*comparison.warnings, *_list_notes(comparison))),
        sections=(
            *(
                dataclass_replace(section, folded=section.id in _FOLDED)
                for section in optional_sections
                if section is not None
            ),
            _build_runs(comparison),
        ),
        data=_build_data(comparison),
        raw={COMPARISON_FILE: comparison, SUMMARY_FILE: _build_summary(comparison)},
        chosen=lambda: list_selected_items(_list_traces(comparison), LONGEST_ROWS, ()),
    )


def _list_baseline_remarks(comparison: Comparison) -> Iterator[str]:
    """Remarks; for suites, changed speed-ups and the change of the compared baselines."""
    if variants.build_headline(comparison):
        yield from variants.list_remarks(comparison)
        yield compare_headline.build_headline(comparison)


def _list_traces(comparison: Comparison) -> list[RankTrace]:
    return [side.trace for side in comparison.sides if side.trace is not None]


def assign_run_styles(comparison: Comparison) -> dict[str, Style]:
    """Style of each run by name, neutral for the reference run."""
    return assign_styles([(side.name, place == 0) for place, side in enumerate(comparison.sides)])


def _list_notes(comparison: Comparison) -> Iterator[Note]:
    """Obstacles to comparing the traces, beyond environment differences."""
    for difference in comparison.differences:
        for note in difference.notes:
            if note.id not in ("difference.devices", "difference.steps"):
                yield replace(note, text=f"{difference.after}: {note}")


def _build_changes(comparison: Comparison) -> Section | None:
    differences = comparison.differences
    if not differences:
        return None
    intro = (
        "Compares traced steps. Ops match by name, phase, module and shapes; compiled code matches the ops it replaced."
    )
    blocks: list[Block] = []
    for place, difference in enumerate(differences):
        end = "" if len(differences) == 1 else f"-{place}"
        difference_blocks = trace_changes.build_blocks(difference, end)
        title = f"{difference.after} vs {difference.before}"
        blocks += (
            difference_blocks
            if len(differences) == 1
            else [Group(id=f"changed{end}", title=title, blocks=difference_blocks)]
        )
    return Section("changed", "What changed", tuple(blocks), intro=(intro,))


def _build_time(comparison: Comparison) -> Section | None:
    traces = _list_traces(comparison)
    bars = [
        Bar(f"{trace.label}, {format_seconds(trace.step_s)}", trace.time_split) for trace in traces if trace.time_split
    ]
    return step.build_split_section(traces, bars, "run", _UNTRACED, to_scale=True) if bars else None


def _build_flame(comparison: Comparison) -> Section | None:
    """Flame graph of each run, the others colored by the difference from the first."""
    first, traces = comparison.sides[0].trace, _list_traces(comparison)
    before = {} if first is None else {trace.label: first for trace in traces if trace is not first}
    # Changed runs first.
    return flame.build_section([*traces[1:], *traces[:1]] if before else traces, before, "run")


def _build_roofline(comparison: Comparison) -> Section | None:
    style, first = assign_run_styles(comparison), comparison.sides[0]
    series = tuple(
        RooflineSeries(
            side.name,
            side.trace.points,
            style[side.name],
            origin="" if side is first or first.trace is None else first.name,
            device=side.device_name,
            ceilings=select_ceilings(side.ceilings, side.environment.threads if side.environment else None),
        )
        for side in comparison.sides
        if side.trace is not None and side.trace.points
    )
    return (
        step.build_roofline_section(RooflinePlane(series), "run", "", "the first run's step to another run's")
        if series
        else None
    )


def _build_memory(comparison: Comparison) -> Section | None:
    style = assign_run_styles(comparison)
    holders = [Holder(side.name, side.memory, style[side.name]) for side in comparison.sides if side.memory is not None]
    if not holders:
        return None
    section = of_memory.build_section(holders, "run", peak=Weight.BRIEF, words=False)
    compared = categories.build_table(holders)
    return Section(section.id, section.title, (*compared, *section.blocks), nav=section.nav, intro=section.intro)


def _get_revision(side: ComparedRun) -> str:
    return (side.environment.git_revision or "") if side.environment else ""


_RUNS: tuple[Column[ComparedRun], ...] = (
    Column("Run", lambda side: make_short_cell(side.name), numeric=False, code=True, weight=Weight.BRIEF),
    Column("Kind", lambda side: make_text_cell(side.kind), numeric=False),
    Column("Part", lambda side: make_text_cell(side.subject), numeric=False),
    Column("Workload", lambda side: make_text_cell(side.workload), numeric=False, wrap=True),
    Column("Device", lambda side: make_text_cell(side.device_name or side.device), numeric=False, wrap=True),
    Column("Revision", lambda side: make_text_cell(_get_revision(side)), numeric=False, code=True),
    Column("Created", lambda side: make_text_cell(side.created_at[:16].replace("T", " ")), numeric=False),
    Column("Path", lambda side: make_text_cell(side.path), numeric=False, wrap=True),
)
_DIFFERING: tuple[Column[EnvironmentMismatch], ...] = (
    Column("Setting", lambda entry: make_text_cell(entry.key), numeric=False, code=True),
    Column("Run", lambda entry: make_short_cell(entry.run), numeric=False),
    Column("This run", lambda entry: make_text_cell(entry.run_value), numeric=False, wrap=True),
    Column("First run", lambda entry: make_text_cell(entry.first_value), numeric=False, wrap=True),
    Column(
        "Times comparable",
        lambda entry: Cell("no" if entry.affects_times else "yes", tone="unsure" if entry.affects_times else ""),
    ),
)


def _build_runs(comparison: Comparison) -> Section:
    runs = Table(id="runs", title="Runs", columns=_RUNS, rows=comparison.sides, what="run", data="runs")
    differing = make_table(
        "differing", "Environment differences", _DIFFERING, comparison.environment_mismatches, "key", limit=None
    )
    alike = "No environment differences recorded."
    nothing = () if differing or len(comparison.sides) < 2 else make_list("alike", [alike], style="empty")
    return Section("where", "Runs", (runs, *differing, *nothing), folded=not differing)


def _build_data(comparison: Comparison) -> tuple[RawTable, ...]:
    sides, differences = comparison.sides, [([each.after], each) for each in comparison.differences]
    traced = [([trace.label], trace) for trace in _list_traces(comparison)]
    names = [side.name for side in sides]
    schema = {"run": str, "figure": str, "unit": str, "value": float, "low": float, "high": float}
    return (
        RawTable(
            "figures", schema, lambda: [row for figure in comparison.figures for row in _list_values(figure, sides)]
        ),
        RawTable(
            "variants",
            {"variant": str, **schema},
            lambda: [row for variant in comparison.variants for row in variants.list_rows(variant, names)],
        ),
        build_plain_data("runs", ComparedRun, sides),
        build_plain_data("differing", EnvironmentMismatch, comparison.environment_mismatches),
        RawTable(
            "ranks", {"rank": int, "run": str, "step_s": float}, lambda: list(compared_ranks.list_rows(comparison))
        ),
        build_owned_data("changes", ChangeRow, {"run": str}, differences, lambda each: each.changes),
        build_owned_data("changed_groups", GroupChange, {"run": str}, differences, _get_groups),
        build_owned_data(
            "time",
            TimeShare,
            {"run": str},
            [([side.name], side) for side in sides],
            lambda side: side.trace.time_split if side.trace else (),
        ),
        *build_cost_tables(_list_traces(comparison), "run"),
        build_owned_data("steps", StepRow, {"run": str}, traced, lambda trace: trace.steps),
        build_owned_data("streams", StreamRow, {"run": str}, traced, lambda trace: trace.streams),
        *of_memory.build_data([Holder(side.name, side.memory) for side in sides if side.memory is not None], "run"),
    )


def _get_groups(difference: TraceDifference) -> tuple[GroupChange, ...]:
    return difference.groups


def _list_values(figure: ComparedFigure, sides: tuple[ComparedRun, ...]) -> Iterator[dict[str, object]]:
    for side, amount in zip(sides, figure.amounts, strict=True):
        known = {"value": amount.value, "low": amount.low, "high": amount.high}
        yield {"run": side.name, "figure": figure.title, "unit": figure.unit, **known}


def _build_summary(comparison: Comparison) -> ReportSummary:
    """The entry in a list of reports: figures of the last run."""
    last = comparison.sides[-1]
    by_title = {figure.title: figure for figure in comparison.figures}

    def known(title: str, otherwise: str) -> Unknown:
        return Unknown(reason=f"{otherwise}: see each run's {title.lower()} in the comparison")

    step_time = by_title.get(STEP) or by_title.get(TRACED_STEP)
    peak = by_title.get(PEAK)
    amounts = {
        "step": step_time.amounts[-1] if step_time else None,
        "peak": peak.amounts[-1] if peak else None,
    }
    units = {"step": "s", "peak": "bytes"}
    return ReportSummary(
        kind="comparison",
        name=comparison.title,
        created_at=comparison.created_at,
        device=last.device_name,
        sources=compute_digest(comparison.runs),
        figures=RowFigures(
            subject=last.name,
            throughput=known("it", "no figures"),
            mfu=known("it", "no figures"),
            **{
                name: make_measurement(amount.value, units[name], amount.source)
                if amount is not None and amount.value is not None
                else Unknown(reason="not recorded for this run")
                for name, amount in amounts.items()
            },
        ),
    )


def _build_steps(comparison: Comparison) -> Section | None:
    """Steps of the runs; none without timed steps."""
    look = assign_styles([(side.name, place == 0) for place, side in enumerate(comparison.sides)])
    rows = [step_times.StepTimesRow(side.name, look[side.name], side.step_samples) for side in comparison.sides]
    trained = [
        StepCurve(side.name, look[side.name], (side.losses,), reference=place == 0)
        for place, side in enumerate(comparison.sides)
    ]
    watched = [
        curves.WatchedCurve(side.name, look[side.name], [(point.last_step, point.step_s) for point in side.live])
        for side in comparison.sides
        if side.live
    ]
    charts = (step_times.build_chart(rows), curves.build_step_time_chart(watched), curves.build_loss_chart(trained))
    blocks: list[Block] = [block for block in charts if block is not None]
    return Section("samples", "Steps", tuple(blocks)) if blocks else None
