"""The facts that a page shows of a kernel, an op, a module, a phase or idle time that was chosen in a table or a
figure."""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.core import units
from perfkit.devices.ceilings.ceiling import CeilingLevel, DeviceCeilings
from perfkit_reports.cells import LONGEST, make_calls_cell, make_integer_cell, make_optional_cell, make_seconds_cell
from perfkit_reports.demangle import demangle_name
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.selected_item import SelectedItem
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.names import shorten_middle
from perfkit_reports.palette import find_work_style
from perfkit_reports.selection import hash_row_part, make_key, make_name_key, make_row_key
from perfkit_reports.subjects.trace.idle import list_selected_idle
from perfkit_reports.subjects.trace.rows.call_sites import CallSites, find_call_sites, make_stacks_cell
from perfkit_reports.subjects.trace.rows.costs import KINDS, SAVINGS, build_cost_columns, compute_gain_s, get_shown_rows

_LONGEST = 2000  # characters of a kernel's name: templates fit, damaged names do not fill the page
_NO_PLACE = "not on the roofline: FLOPs, bytes or time unknown"
CALLED_FROM = "Launched from"
_EXACT = 0.02  # the formula is shown where it gives the time that the roofs allow


def list_selected_items(
    traces: Sequence[RankTrace], limit: int, findings: Sequence[Finding]
) -> tuple[SelectedItem, ...]:
    """The first rows of each trace's tables, its roofline dots, and the ops that these and findings name."""
    about = {name for finding in findings for name in finding.ops}
    return tuple(
        one
        for trace in traces
        for one in _list_trace_items(trace, limit, about, trace.label if len(traces) > 1 else "")
    )


def _list_trace_items(trace: RankTrace, limit: int, about: AbstractSet[str], owner: str) -> Iterator[SelectedItem]:
    yield from list_selected_idle(trace, owner)
    rows = _list_rows(trace, limit, about)
    sites = find_call_sites(trace)
    facts = {kind: _list_fact_columns(kind, trace, sites) for kind in dict.fromkeys(row.kind for row in rows)}
    for row in rows:
        yield _make_item(
            row,
            owner,
            hash_row_part(row),
            ((column.title, _make_whole_cell(column, row)) for column in facts[row.kind]),
        )
    for rows_of_name in _group_by_name(trace, rows):
        # Work outside the steps has figures per step, too, and is no part of one.
        same = [row for row in rows_of_name if row.phase != OUTSIDE] or rows_of_name
        if len(rows_of_name) > 1:
            yield _make_item(same[0], owner, "", _list_summed_facts(same, sites))


def _make_item(row: OpRow, owner: str, part: str, facts: Iterable[tuple[str, Cell]]) -> SelectedItem:
    work = find_work_style(row)
    recorded = (row.module or row.name if row.kind == "module" else row.name)[:_LONGEST]
    name = demangle_name(recorded)
    return SelectedItem(
        key=make_name_key(row),
        part=part,
        kind=row.kind,
        name=name,
        recorded="" if name == recorded else recorded,
        facts=tuple(facts),
        owner=owner,
        work=None if work is None else (work.name, work.color),
        of=tuple(_list_parents(row)) if part else (),
    )


def _list_rows(trace: RankTrace, limit: int, about: AbstractSet[str]) -> list[OpRow]:
    """The rows of the tables; of ops named by others, and of dots, those not among them."""
    rows = [row for kind in KINDS for row in get_shown_rows(trace, kind, limit)]
    keys = {make_row_key(row) for row in rows}
    named = about | {row.op for row in rows}
    longest = sorted(trace.ops, key=lambda row: -row.seconds)
    firsts = {row.name: row for row in reversed(longest)}  # the table may name any op, as a row of several layers
    more = [*[row for row in longest if row.name in named][:limit], *list(firsts.values())[-limit:]]
    return rows + [
        row
        for row in {make_row_key(row): row for row in (*more, *trace.points)}.values()
        if make_row_key(row) not in keys
    ]


def _group_by_name(trace: RankTrace, rows: Sequence[OpRow]) -> Iterable[list[OpRow]]:
    """All rows with a name in `rows`, also those not in it."""
    groups: dict[str, list[OpRow]] = {make_name_key(row): [] for row in rows}
    for kind in KINDS:
        for row in get_shown_rows(trace, kind):
            if (name := make_name_key(row)) in groups:
                groups[name].append(row)
    return groups.values()


def _list_summed_facts(rows: Sequence[OpRow], sites: CallSites) -> Iterator[tuple[str, Cell]]:
    """Figures that add up over rows of one name."""
    gains = [gain for row in rows if (gain := compute_gain_s(row)) is not None]
    yield "Rows", make_integer_cell(len(rows))
    yield "Time", make_seconds_cell(sum(row.seconds for row in rows))
    yield (
        SAVINGS,
        make_seconds_cell(sum(gains)) if gains else make_unknown_cell("no row has a known roof"),
    )
    yield "Calls", make_calls_cell(sum(row.calls for row in rows))
    critical = [row.critical_s for row in rows if row.critical_s is not None]
    yield "On the critical path", make_seconds_cell(sum(critical)) if critical else Cell(NOTHING)
    yield CALLED_FROM, make_stacks_cell(sites, make_name_key(rows[0]))


def _list_fact_columns(kind: str, trace: RankTrace, sites: CallSites) -> list[Column[OpRow]]:
    """The columns of the kind's table without the name, and the details of a single row."""
    table = f"{kind}s" if f"{kind}s" in KINDS else "phases"
    rest = build_cost_columns(table, trace.device_name)[1:]
    best = next(place for place, column in enumerate(rest) if column.title == "Roofline time")
    achieved = (
        Column[OpRow]("Achieved", lambda row: make_optional_cell(row.flops_per_s, units.format_flop_rate, _NO_PLACE)),
        Column[OpRow](
            "Bandwidth",
            lambda row: make_optional_cell(_compute_rate(row), units.format_bandwidth, "bytes unknown"),
        ),
    )
    explained = replace(
        rest[best], cell=lambda row: replace(rest[best].cell(row), detail=_format_formula(row, trace.ceilings))
    )
    place = Column[OpRow](CALLED_FROM, lambda row: make_stacks_cell(sites, make_name_key(row)))
    return [*rest[:best], *achieved, explained, *rest[best + 1 :], place]


def _make_whole_cell(column: Column[OpRow], row: OpRow) -> Cell:
    return {"Shapes": Cell(shorten_middle(row.shapes, LONGEST)), "Module": Cell(row.module), "Op": Cell(row.op)}.get(
        column.title, column.cell(row)
    )


def _compute_rate(row: OpRow) -> float | None:
    return row.bytes / row.seconds if row.bytes is not None and row.seconds > 0 else None


def _format_formula(row: OpRow, ceilings: DeviceCeilings | None) -> str:
    """`1.2 GFLOP / 989 TFLOP/s, 30 MB / 3.35 TB/s: the longer`; empty where the two do not give the time at best."""
    if ceilings is None or row.attainable_s is None or row.flops is None or row.bytes is None:
        return ""
    peak = ceilings.find(CeilingLevel(row.unit), row.dtype) if row.unit else None
    memory = (
        ceilings.find(CeilingLevel(row.level))
        if row.level in (CeilingLevel.MEMORY, CeilingLevel.L2, CeilingLevel.L3)
        else None
    )
    parts, longest = [], 0.0
    for amount, ceiling, show, rate in (
        (row.flops, peak, units.format_flops, units.format_flop_rate),
        (row.bytes, memory, units.format_bytes, units.format_bandwidth),
    ):
        if ceiling is not None and amount:
            longest = max(longest, amount / ceiling.value)
            parts.append(f"{show(amount)} / {rate(ceiling.value)} = {units.format_seconds(amount / ceiling.value)}")
    exact = abs(longest - row.attainable_s) <= _EXACT * row.attainable_s
    return "; ".join(parts) if exact else ""


def _list_parents(row: OpRow) -> Iterator[tuple[str, str]]:
    """The names that it is a part of, and their keys."""
    if row.op and row.op != row.name:
        yield f"op {row.op}", make_key("op", row.op)
    if row.module and row.kind != "module":
        yield f"module {row.module}", make_key("module", row.module)
    if row.phase not in ("", OUTSIDE) and row.kind != "phase":
        yield f"phase {row.phase}", make_key("phase", row.phase)
