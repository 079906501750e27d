"""Details of a variant's row: failure, technique checks, detailed figures."""

from collections.abc import Iterator
from dataclasses import replace

from perfkit.analysis.model.estimate import ClaimOutcome
from perfkit.analysis.model.suite import ClaimResult, CompileSummary, Variant
from perfkit.core import units
from perfkit.core.record.rank_record import Recompilation
from perfkit_reports import waits
from perfkit_reports.cells import format_relative, make_optional_cell, make_quantity_cell, make_seconds_cell
from perfkit_reports.document.blocks import Block, Facts, Text
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.subjects.suite import suite_cells
from perfkit_reports.subjects.suite.suite_columns import is_measured
from perfkit_reports.subjects.tables import make_list, make_table

_OUTCOMES: dict[ClaimOutcome, Cell] = {
    "active": Cell("✓ pass", id="active", tone="good"),
    "in part": Cell("◐ in part", id="in part", tone="bad"),
    "not active": Cell("✗ fail", id="not active", tone="bad"),
    "already true": Cell("✗ fail", id="already true", tone="bad"),
    "unknown": Cell("? unknown", id="unknown", tone="unsure"),
}
_CLAIMS: tuple[Column[ClaimResult], ...] = (
    Column("Technique", lambda claim: Cell(claim.technique), numeric=False),
    Column("Check", lambda claim: Cell(claim.statement), numeric=False, wrap=True),
    Column("Result", lambda claim: _OUTCOMES[claim.outcome], numeric=False),
    Column("Evidence", lambda claim: Cell(claim.evidence), numeric=False, wrap=True),
)
_MOST_STEPS = 6


def _make_changed_cell(row: Recompilation) -> Cell:
    """`x, dimension 1: 12, 17, 9`."""
    if not row.argument:
        return make_unknown_cell("the guard names no argument")
    place = "" if row.dimension is None else f", dimension {row.dimension}"
    values = f": {', '.join(row.values)}" if row.values else ""
    return Cell(f"{row.argument}{place}{values}")


def _make_steps_cell(row: Recompilation) -> Cell:
    if not row.steps:
        return make_unknown_cell("not followed step by step")
    more = f" and {len(row.steps) - _MOST_STEPS:,} more" if len(row.steps) > _MOST_STEPS else ""
    return Cell(", ".join(f"{step:,}" for step in row.steps[:_MOST_STEPS]) + more, value=row.steps[0])


_RECOMPILATIONS: tuple[Column[Recompilation], ...] = (
    Column("Function", lambda row: Cell(row.function), numeric=False),
    Column("Changed", _make_changed_cell, numeric=False, wrap=True),
    Column("Last failed guard", lambda row: Cell(row.guard), numeric=False, wrap=True),
    Column("Count", lambda row: Cell(f"{row.count:,}", value=row.count)),
    Column("Compile time", lambda row: make_seconds_cell(row.seconds)),
    Column("Steps", _make_steps_cell, numeric=False),
    Column("Limit reached", lambda row: Cell("yes" if row.limited else "no"), numeric=False),
)


def build_blocks(variant: Variant, place: int) -> tuple[Block, ...]:
    """Details of a variant, or nothing; `place` makes block ids unique."""
    reasons = tuple(_build_reasons(variant, f"variant-{place}"))
    return (*reasons, *_build_facts(variant, f"variant-{place}")) if reasons or is_measured(variant) else ()


def _build_reasons(variant: Variant, name: str) -> Iterator[Block]:
    if variant.reason and is_measured(variant):
        yield Text(id=f"{name}-reason", lines=(variant.reason,))
    if variant.traceback:
        yield from make_list(f"{name}-traceback", [variant.traceback], f"Traceback of {variant.name}", style="code")
    yield from make_list(f"{name}-waits", waits.describe_waits(variant), "Rank stacks")
    claims = {"data": "", "limit": None}
    yield from make_table(f"{name}-claims", "Technique checks", _CLAIMS, variant.claims, "claim", **claims)
    if variant.loop is None:  # a loop's caveats are in its "Recording" section
        yield from make_list(f"{name}-caveats", variant.warnings, "Caveats", style="callout")


def _build_facts(variant: Variant, name: str) -> Iterator[Block]:
    """Detailed figures."""
    setup = ((cost.name, make_seconds_cell(cost.seconds)) for cost in variant.setup)
    for key, title, items in (
        ("figures", "Detailed figures", _list_figures(variant) if is_measured(variant) else ()),
        ("setup", "One-time setup", setup),
        ("compile", "Compilation", _list_compile_facts(variant.compile) if variant.compile else ()),
    ):
        if known_items := tuple(items):
            yield Facts(id=f"{name}-{key}", title=title, items=known_items, weight=Weight.DETAIL)
    remade = variant.compile.recompilations if variant.compile else ()
    yield from make_table(
        f"{name}-recompilations", "Recompilations", _RECOMPILATIONS, remade, "guard", data="", limit=None
    )


def _list_figures(variant: Variant) -> Iterator[tuple[str, Cell]]:
    if variant.difference is not None:
        verdict = suite_cells.make_verdict_cell(variant)
        yield "Verdict", replace(verdict, detail=verdict.reason, reason="")
    yield "Throughput", suite_cells.make_throughput_cell(variant)
    yield "MFU", suite_cells.make_utilization_cell(variant)
    if variant.data_wait_share is not None:
        yield "Data wait", suite_cells.make_data_wait_cell(variant)
    yield "CPU time per step", suite_cells.make_cpu_time_cell(variant)
    if variant.cpu_difference is not None:
        yield "CPU time vs baseline", suite_cells.make_cpu_change_cell(variant)
    yield "Model FLOPs per step", make_quantity_cell(variant.model_flops)
    yield "Executed FLOPs", make_quantity_cell(variant.hardware_flops)
    yield "Reserved memory", make_quantity_cell(variant.peak_reserved)
    yield "Process memory (RSS)", make_quantity_cell(variant.rss)
    energy = make_quantity_cell(variant.energy_per_step)
    yield "Energy per step", energy
    if energy.known:
        yield "Energy per unit", make_quantity_cell(variant.energy_per_unit)
        yield "Mean power", make_quantity_cell(variant.power)
    if variant.clocks is not None:
        yield "GPU clock", suite_cells.make_clock_cell(variant.clocks)
    if variant.mfu_peak:
        yield "Peak for MFU and HFU", Cell(variant.mfu_peak)
    if variant.traced_step is not None and variant.traced_step.modeled_share is not None:
        share = units.format_percent(variant.traced_step.modeled_share)
        yield "FLOP/byte coverage of op time", Cell(share)
    yield "Ranks", Cell(f"{variant.world_size:,}")
    yield "Processes", Cell(f"{len(variant.runs):,}")
    parity = variant.parity
    if parity.tolerance is not None:
        yield "Loss tolerance", Cell(format_relative(parity.tolerance), detail=f"{parity.basis}, {parity.steps} steps")


def _list_compile_facts(compiled: CompileSummary) -> Iterator[tuple[str, Cell]]:
    absent = "torch.compile reported nothing"
    first = make_optional_cell(compiled.seconds, units.format_seconds, absent)
    yield "First process", replace(first, detail=f"cache: {compiled.cache}")
    yield "Break-even", Cell(compiled.break_even)
    warm = compiled.warm
    if warm is None:
        yield "Warm caches", make_unknown_cell("no later process used only warm caches")
    else:
        processes = f"median of {warm.processes:,} fully cached processes"
        yield "Warm caches", Cell(units.format_seconds(warm.seconds), detail=processes)
        yield "Break-even, warm caches", Cell(warm.break_even)
    yield "Graphs", make_optional_cell(compiled.graphs, str, absent)
    yield (
        "Graph breaks",
        replace(make_optional_cell(compiled.graph_breaks, str, absent), detail="; ".join(compiled.break_reasons)),
    )
    if compiled.graph_calls is not None:
        yield "Graph calls per step", Cell(f"{compiled.graph_calls:,.0f}", detail="forward and backward")
