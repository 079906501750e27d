"""The work of a step in one table: ops, GEMMs, attention, kernels, collectives, modules and phases."""

from collections.abc import Iterator, Sequence

from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.devices.accelerator import is_cpu
from perfkit_reports.document.blocks import Block, Choice, Section, Table, Text
from perfkit_reports.document.tables import drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.selection import make_row_key
from perfkit_reports.subjects.tables import make_table
from perfkit_reports.subjects.trace import trace_columns
from perfkit_reports.subjects.trace.rows.call_sites import find_call_sites
from perfkit_reports.subjects.trace.rows.costs import (
    DEVICE,
    SAVINGS,
    build_table_columns,
    get_shown_rows,
    is_ranked_by_savings,
)
from perfkit_reports.subjects.trace.rows.equal_layers import make_merged_key, merge_equal_layers
from perfkit_reports.subjects.trace.rows.products import build_product_tables
from perfkit_reports.subjects.trace.series import list_detailed_traces, list_traces

# More would make a page too large to send: of a trace that stands alone, and of several together.
_ROWS, _ROWS_TOGETHER = 80, 50
_TITLE = "Operations"
_INTRO = "Savings are the time above the roofline: an upper bound. Rows without a known roof come last."
_NO_LINES = "No source lines: record with with_stack=True."
_CAPTIONS = {"ops": "Equal layers share a row.", "modules": "A module includes its submodules, so rows overlap."}
_TABS = ("All", "GEMM", "Attention", "Kernels", "Collectives", "Modules", "Phases")
_KINDS = {"All": "ops", "Kernels": "kernels", "Modules": "modules", "Phases": "phases"}


def build_operations_section(analysis: TraceAnalysis) -> Section:
    traces = list_detailed_traces(analysis)
    none = "The trace contains no kernels and no ops."
    cut = _describe_cut(len(traces), len(list_traces(analysis)), analysis.file_count)
    return build_section(traces, "trace", none, get_row_limit(analysis), Weight.BRIEF, cut)


def get_row_limit(analysis: TraceAnalysis) -> int:
    """The most rows of a table."""
    traces = len(list_detailed_traces(analysis))
    return _ROWS if traces < 2 else _ROWS_TOGETHER // traces


def _describe_cut(shown: int, total: int, files: int) -> str:
    """The number of traces without tables on the page; "" where all have them."""
    if files:
        return f"Tables of {shown} of {files:,} traces shown; tables/ has those of the {total} analyzed in full."
    return f"Tables of {shown} of {total} traces shown; all are in tables/." if total > shown else ""


def build_section(
    traces: Sequence[RankTrace], what: str, none: str, limit: int, weight: Weight, cut: str = ""
) -> Section:
    """Build tables of at most `limit` rows of `traces`, each of them a `what`; `cut` tells which others have none."""
    tables = {
        (tab, trace.label): table
        for place, trace in enumerate(traces)
        for tab, table in _build_tables(trace, place, limit, weight)
    }
    if not tables:
        return Section("savings", _TITLE, (Text(id="no-costs", lines=(none,), style="empty"),))
    tabs = [tab for tab in _TABS if any(name == tab for name, _ in tables)]
    labels = dict.fromkeys(label for _, label in tables)
    blocks: list[Block] = [
        Choice(
            id="costs",
            keys=("Table", what.capitalize()),
            options={
                (tab, label): tables.get((tab, label)) or _build_empty_table(tab, place)
                for tab in tabs
                for place, label in enumerate(labels)
            },
            filter="name, op, module, line",
            weight=weight,
        )
    ]
    if cut:
        blocks.append(Text(id="costs-cut", lines=(cut,), style="caption"))
    return Section("savings", _TITLE, tuple(blocks), intro=(_INTRO,))


def _build_empty_table(tab: str, place: int) -> Table:
    return Table(id=f"{tab.lower()}-none-{place}", title=tab, columns=(), rows=())


def _build_tables(trace: RankTrace, place: int, limit: int, weight: Weight) -> Iterator[tuple[str, Table]]:
    """(tab, table) of those that have rows, in the order of the tabs."""
    sites = find_call_sites(trace)
    no_lines = "" if sites or is_cpu(trace.device) else _NO_LINES
    products = build_product_tables(trace, sites, f"-{place}", limit)
    for tab in _TABS:
        if tab in products:
            yield from ((tab, table) for table in products[tab])
        elif tab == "Collectives":
            columns = drop_empty_columns(trace_columns.COLLECTIVES, trace.collectives)
            title = f"Collectives of {trace.label}"
            made = make_table(f"collectives-{place}", title, columns, trace.collectives, "collective", sorted="Time")
            yield from ((tab, table) for table in made)
        elif rows := get_shown_rows(trace, _KINDS[tab]):
            kind = _KINDS[tab]
            missing = no_lines if kind in ("kernels", "ops") else ""
            shown = merge_equal_layers(rows) if kind == "ops" else rows
            device = (DEVICE,) if any(row.device for row in rows) else ()
            yield (
                tab,
                Table(
                    id=f"{kind}-{place}",
                    title=f"{kind.capitalize()} of {trace.label}",
                    columns=(*build_table_columns(kind, sites), *device),
                    rows=shown,
                    what=kind[:-1],
                    data=kind,
                    limit=limit,
                    sorted=SAVINGS if is_ranked_by_savings(rows) else "Time",
                    caption=" ".join(filter(None, (_CAPTIONS.get(kind, ""), missing))),
                    weight=weight,
                    key=make_merged_key(rows) if kind == "ops" else make_row_key,
                ),
            )
