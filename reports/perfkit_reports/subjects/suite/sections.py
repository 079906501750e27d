"""What benches and attached loops share: the document, its table, findings, samples and method."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.estimate import MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, MeasuredSession, Variant
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown, make_measurement
from perfkit.cost.formulas.attention_mask import UNMASKED
from perfkit.store.layout import REPORT_JSON
from perfkit.store.summary import SUMMARY_FILE, ReportSummary, RowFigures, VariantOutcome
from perfkit_reports.charts import curves, step_times
from perfkit_reports.charts.curves import StepCurve
from perfkit_reports.document.blocks import Block, Facts, Group, Section, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.environment import format_machine
from perfkit_reports.subjects import findings, method
from perfkit_reports.subjects.memory.memory_tables import build_data as memory_tables
from perfkit_reports.subjects.memory.selected_memory import list_memory_items
from perfkit_reports.subjects.suite import details, suite_cells
from perfkit_reports.subjects.suite.chart_styles import assign_variant_styles, limit_rows, list_holders, list_traces
from perfkit_reports.subjects.suite.losses import build_sections as of_other_trajectories
from perfkit_reports.subjects.suite.suite_cells import get_throughput_unit
from perfkit_reports.subjects.suite.suite_data import build_data
from perfkit_reports.subjects.suite.suite_headline import find_fastest
from perfkit_reports.subjects.trace.selected_items import list_selected_items


def summarize_suite(analysis: Analysis, headline: str) -> ReportSummary:
    """Figures of the fastest valid variant, else of the baseline."""
    environment = analysis.environment
    return ReportSummary(
        kind="suite",
        name=analysis.workload,
        created_at=analysis.created_at,
        device=environment.device_name if environment is not None else "",
        outcomes=tuple(VariantOutcome(variant=variant.name, status=variant.status) for variant in analysis.variants),
        conclusion=analysis.conclusion,
        headline=headline,
        runs=sum(len(variant.runs) for variant in analysis.variants),
        figures=_build_figures(analysis),
    )


def _build_figures(analysis: Analysis) -> RowFigures:
    variants = analysis.variants
    baseline = next((variant for variant in variants if variant.is_baseline), next(iter(variants), None))
    shown = find_fastest(analysis) or baseline
    if shown is None:
        return RowFigures()
    return RowFigures(
        subject=shown.name if len(variants) > 1 else "",
        step=_make_quantity(shown.step_time, "s"),
        throughput=_make_quantity(shown.throughput, get_throughput_unit(shown)),
        peak=_get_peak(shown),
        mfu=shown.mfu,
    )


def _get_peak(variant: Variant) -> Quantity:
    """The allocator's count without recording; on a CPU, which has none, the recorded peak."""
    if isinstance(variant.peak_allocated, Measurement) or variant.memory is None:
        return variant.peak_allocated
    return make_measurement(variant.memory.peak_bytes, "bytes", variant.memory.source)


def _make_quantity(estimate: MedianEstimate | MissingEstimate, unit: str) -> Quantity:
    if isinstance(estimate, MissingEstimate):
        return Unknown(reason=estimate.reason)
    return Measurement(value=estimate.value, unit=unit, how=QuantityOrigin(estimate.how), source=estimate.source)


def build_suite_document(
    analysis: Analysis,
    *,
    headline: str,
    lead: Sequence[str],
    summary: Sequence[Block],
    sections: Sequence[Section],
    details: Sequence[Section],
) -> Document:
    """The parts of a suite's document that differ between a bench and a loop; `details` are folded."""
    machine = format_machine(analysis)
    return Document(
        kind="suite",
        title=analysis.title,
        headline=headline,
        perfkit=analysis.perfkit,
        created_at=analysis.created_at,
        eyebrow=tuple(filter(None, (analysis.workload, machine, analysis.created_at[:10]))),
        lead=tuple(lead),
        summary=tuple(summary),
        sections=(*sections, *fold_sections([*details, _build_environment(analysis)])),
        warnings=analysis.warnings,
        data=(*build_data(analysis), *memory_tables(list_holders(analysis), "variant")),
        raw={REPORT_JSON: _drop_timelines(analysis), SUMMARY_FILE: summarize_suite(analysis, headline)},
        saves=REPORT_JSON,
        chosen=lambda: (
            *list_selected_items(list_traces(analysis), limit_rows(list_traces(analysis)), analysis.findings),
            *list_memory_items(list_holders(analysis)),
        ),
    )


def fold_sections(sections: Iterable[Section]) -> Iterator[Section]:
    """The sections, closed on a page until they are opened."""
    return (dataclasses.replace(section, folded=True) for section in sections)


def _drop_timelines(analysis: Analysis) -> Analysis:
    """Cases for the report's JSON: the page has them as columns, and traces stay in the run's folder."""
    return replace(
        analysis,
        variants=tuple(
            variant if variant.trace is None else replace(variant, trace=replace(variant.trace, timelines=()))
            for variant in analysis.variants
        ),
    )


def describe_utilization(analysis: Analysis) -> Iterator[str]:
    """Explain MFU and HFU, if both are shown."""
    yield "MFU counts forward and backward; HFU also counts recomputation and the optimizer."
    known = [share for variant in analysis.variants for share in (variant.mfu, variant.hfu)]
    if any(isinstance(share, Measurement) and UNMASKED in share.source for share in known):
        yield "MFU and HFU count all position pairs in attention; executed FLOPs leave out masked pairs."


def build_peaks(analysis: Analysis) -> Iterator[Text]:
    """The peaks that the variants' MFU refers to: a narrow table has no room for them."""
    by_peak: dict[str, list[str]] = {}
    for variant in analysis.variants:
        if isinstance(variant.mfu, Measurement) and variant.mfu.of:
            by_peak.setdefault(variant.mfu.of, []).append(variant.name)
    if by_peak:
        named = [
            f"of {peak}" + (f": {', '.join(names)}" if len(by_peak) > 1 else "") for peak, names in by_peak.items()
        ]
        yield Text(id="peaks", lines=(f"MFU {'; '.join(named)}.",), style="caption", weight=Weight.BRIEF)


def build_variant_table(
    analysis: Analysis, title: str, columns: Sequence[Column[Variant]], what: str, *caption: str
) -> Table:
    """One row per variant, which unfolds to its details."""
    unfolded = {variant.name: details.build_blocks(variant, place) for place, variant in enumerate(analysis.variants)}
    return Table(
        id="variants",
        title=title,
        columns=columns,
        rows=analysis.variants,
        what=what,
        data="variants",
        caption=" ".join(caption),
        details=lambda variant: unfolded[variant.name],
        weight=Weight.BRIEF,
    )


def build_findings_section(analysis: Analysis, owner: str, nothing: str = "") -> Section:
    """Findings of the suite, with their variant if there are several."""
    alone = len(analysis.variants) == 1 and analysis.variants[0].world_size == 1
    return findings.build_section(analysis.findings, "" if alone else owner, nothing, list_traces(analysis))


def build_samples_section(analysis: Analysis, *intro: str) -> Section:
    """Every timed step, without warm-up, and losses without a section of their own."""
    rows, warming, trained = [], [], []
    look = assign_variant_styles(analysis)
    for variant in analysis.variants:
        name, style = variant.name, look[variant.name]
        rows.append(
            step_times.StepTimesRow(
                name, style, variant.step_samples, variant.loop.data_waits_s if variant.loop else ()
            )
        )
        warming.append(StepCurve(name, style, variant.warmup_samples))
        trained.append(StepCurve(name, style, (variant.losses,), reference=variant.is_baseline))
    steps, warm_up = step_times.build_chart(rows), curves.build_warmup_chart(warming)
    losses = None if any(of_other_trajectories(analysis)) else curves.build_loss_chart(trained)
    blocks: list[Block] = [steps or Text(id="step-times", lines=("No timed steps.",), style="empty")]
    if beside := tuple(block for block in (warm_up, losses) if block is not None):
        blocks.append(Group(id="beside", blocks=beside, beside=True))
    return Section("samples", "Samples", tuple(blocks), intro=intro if steps else ())


def _build_environment(analysis: Analysis) -> Section:
    """Workload, environment, and source of each figure."""
    ran = Facts(
        id="ran",
        title="Workload",
        items=(
            ("Workload", Cell(analysis.workload, detail=analysis.workload_description)),
            ("Command", Cell(analysis.command or "n/a")),
            ("perfkit", Cell(analysis.perfkit)),
            ("Date", Cell(analysis.created_at)),
        ),
    )
    blocks = (
        Group(id="what-and-where", blocks=(ran, method.build_machine(analysis.environment)), beside=True),
        *_build_sessions(analysis),
        *method.build_ceilings([analysis.ceilings] if analysis.ceilings else []),
        method.build_provenance(analysis.provenance),
    )
    return Section("environment", "Environment and method", blocks, nav="Environment")


_SESSIONS: tuple[Column[MeasuredSession], ...] = (
    Column("Session", lambda session: Cell(session.created_at[:16].replace("T", " ")), numeric=False),
    Column("Variants", lambda session: Cell(", ".join(session.variants) or NOTHING), numeric=False, wrap=True),
    Column("Baseline step", lambda session: _make_baseline_step_cell(session), numeric=False),
    Column("Command", lambda session: Cell(session.command), numeric=False, wrap=True, code=True),
)


def _build_sessions(analysis: Analysis) -> tuple[Block, ...]:
    """Sessions of the suite; nothing if there is one."""
    if len(analysis.sessions) < 2:
        return ()
    return (Table(id="sessions", title="Sessions", columns=_SESSIONS, rows=analysis.sessions, what="session"),)


def _make_baseline_step_cell(session: MeasuredSession) -> Cell:
    steps = [(name, suite_cells.make_estimate_cell(step)) for name, step in session.baseline_steps.items()]
    if not steps:
        return Cell(NOTHING)
    named = len(steps) > 1
    return Cell(
        ", ".join(f"{name}: {cell.text}" if named else cell.text for name, cell in steps),
        detail=", ".join(cell.detail for _, cell in steps),
    )


def build_empty_section(name: str, title: str, why: str, nav: str = "") -> Section:
    """An empty section with its reason."""
    return Section(name, title, (Text(id=f"{name}-empty", lines=(why,), style="empty", weight=Weight.DETAIL),), nav=nav)
