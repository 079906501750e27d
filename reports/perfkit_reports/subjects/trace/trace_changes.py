"""The changes between two traces: bars and tables by kind of work, phase, module, part of the step, and op."""

from collections.abc import Callable, Sequence

from perfkit.analysis.difference.groups import KIND, MODULE, PHASE, TIME
from perfkit.analysis.model.difference import ChangeRow, GroupChange, TraceDifference
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit.core import units
from perfkit.core.note import Note
from perfkit.core.texts.name_lists import list_first
from perfkit_reports.cells import format_count, make_code_cell, make_growth_cell, make_short_cell, make_text_cell
from perfkit_reports.charts import change_charts as chart
from perfkit_reports.document.blocks import Block, Choice, Details, Group, Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import NOTHING, Column, drop_empty_columns
from perfkit_reports.document.weight import Weight
from perfkit_reports.names import shorten_kernel, shorten_middle
from perfkit_reports.notes import map_texts
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.selection import make_key
from perfkit_reports.subjects.tables import make_list, make_table
from perfkit_reports.subjects.trace.trace_headline import get_file_name
from perfkit_reports.wording import format_plural, format_sentence, format_signed_seconds

# In the order of reading; a way of which there is but one group, with nothing to tell apart, is left out.
_WAYS = ((KIND, "Work type"), (PHASE, "Phase"), (MODULE, "Module"), (TIME, "Part of the step"))
_REPLACED = 4  # ops named of those that compiled code replaced
# The meaning of each kind of evidence.
_EVIDENCE = {
    "new": "not called before",
    "gone": "no longer called",
    "more calls": "counted exactly",
    "fewer calls": "counted exactly",
    "other inputs": "same number of calls, other shapes or dtypes",
    "slower": "in every traced step, beyond the noise of other ops",
    "faster": "in every traced step, beyond the noise of other ops",
    "noise": "within the noise of equal work in these traces",
}
_LABEL = "Largest changes per step; the table below has the same figures"


def build_section(analysis: TraceAnalysis) -> Section | None:
    """Changes since another trace; None where nothing is compared."""
    difference = analysis.difference
    if difference is None:
        return None
    after = next((trace for trace in analysis.traces if trace.label == difference.after), None)
    now = difference.after if after is None else get_file_name(after)
    change = format_signed_seconds(chart.compute_change(difference))
    intro = f"{now} vs {get_file_name(difference.before_trace)}: {change} per step."
    return Section("changed", "What changed", build_blocks(difference), intro=(intro,))


def list_caveats(analysis: TraceAnalysis) -> tuple[Note, ...]:
    """Differences that make the two hard to compare."""
    difference = analysis.difference
    return () if difference is None else map_texts(format_sentence, difference.notes)


def build_blocks(difference: TraceDifference, end: str = "") -> tuple[Block, ...]:
    """Build bars and tables of a difference; `end` makes their ids unique."""
    total_s = chart.compute_change(difference)
    ops = chart.build_chart(f"changes-chart{end}", "By op", chart.list_op_changes(difference), total_s, _LABEL)
    if ops is None:
        return make_list(f"no-changes{end}", ["No ops of the two traces match."], style="empty")
    changed = difference.changes
    rows = make_table(
        f"changes{end}",
        "Changes by op",
        build_change_columns(changed),
        changed,
        "op",
        data="changes",
        weight=Weight.BRIEF,
        about=lambda row: make_key("op", row.name),
    )
    folded = Details(id=f"all-changes{end}", title="All changed ops (table)", blocks=rows, weight=Weight.BRIEF)
    options: dict[tuple[str, ...], Block] = {}
    for by, title in _WAYS:
        groups = [group for group in difference.groups if group.grouping == by and (group.before_s or group.after_s)]
        if len(groups) > 1:
            options[title,] = _build_grouping(difference, by, title, groups, end)
    options["Op",] = Group(id=f"changes-by-op{end}", blocks=(ops, folded), weight=Weight.BRIEF)
    return (Choice(id=f"changes-by{end}", keys=("Group by",), options=options, weight=Weight.BRIEF),)


def _build_grouping(difference: TraceDifference, by: str, title: str, groups: Sequence[GroupChange], end: str) -> Block:
    name = f"{by.replace(' ', '-')}{end}"
    drawn = chart.build_chart(
        f"changes-{name}-chart", "", chart.list_group_changes(difference, by), chart.compute_change(difference), _LABEL
    )
    most = max(max(group.before_s, group.after_s) for group in groups)
    of: list[Column[GroupChange]] = [
        Column(
            title,
            lambda group: make_short_cell(flatten_text(group.name), 60),
            numeric=False,
            wrap=True,
            weight=Weight.BRIEF,
        ),
        Column(
            "Change",
            lambda group: make_growth_cell(group.change_s, format_signed_seconds),
            help="per step",
            weight=Weight.BRIEF,
        ),
        Column(
            "Before",
            lambda group: _make_seconds_cell(group.before_s),
            meter=True,
            most=most,
            help="per step",
            weight=Weight.BRIEF,
        ),
        Column(
            "After",
            lambda group: _make_seconds_cell(group.after_s),
            meter=True,
            most=most,
            help="per step",
            weight=Weight.BRIEF,
        ),
    ]
    if by != TIME:
        of.append(Column("Calls", _make_calls_cell, help="per step, before → after"))
    rows = Table(
        id=f"changes-{name}",
        title=f"Changes by {title[0].lower()}{title[1:]}",
        columns=of,
        rows=groups,
        what="group",
        data="changed_groups",
        limit=40,
        weight=Weight.BRIEF,
    )
    return Group(id=f"changes-by-{name}", blocks=(*([drawn] if drawn else ()), rows), weight=Weight.BRIEF)


def _make_seconds_cell(seconds: float) -> Cell:
    return Cell(units.format_seconds(seconds) if seconds else "–", value=seconds)


def _make_calls_cell(row: GroupChange | ChangeRow) -> Cell:
    before, after = row.before_calls or 0.0, row.after_calls or 0.0
    was, now = format_count(before), format_count(after)
    return Cell(now if was == now else f"{was} → {now}", value=after)


def _make_side_cell(value: float | None, show: Callable[[float], str]) -> Cell:
    if value is None:
        return Cell(NOTHING, reason="absent there", value=0.0)
    return Cell(show(value), value=value)


def _make_evidence_cell(row: ChangeRow) -> Cell:
    if not row.evidence:
        return Cell(NOTHING)
    tone = "" if row.evidence == "noise" else "bad" if row.change_s > 0 else "good"
    return Cell(row.evidence, reason=_EVIDENCE.get(row.evidence, ""), value=row.evidence, tone=tone)


def build_change_columns(rows: Sequence[ChangeRow]) -> list[Column[ChangeRow]]:
    """Time of an op before and after, on one scale, and the evidence of the change."""
    most = max((value or 0.0 for row in rows for value in (row.before_s, row.after_s)), default=0.0) or 1.0
    columns: list[Column[ChangeRow]] = [
        Column("Op", _make_op_cell, numeric=False, code=True),
        Column("Evidence", _make_evidence_cell, numeric=False),
        Column("Change", lambda row: make_growth_cell(row.change_s, format_signed_seconds), help="per step"),
        Column(
            "Before",
            lambda row: _make_side_cell(row.before_s, units.format_seconds),
            meter=True,
            most=most,
            help="per step",
        ),
        Column(
            "After",
            lambda row: _make_side_cell(row.after_s, units.format_seconds),
            meter=True,
            most=most,
            help="per step",
        ),
        Column("Calls", _make_calls_cell, help="per step, before → after"),
        Column("Module", lambda row: make_short_cell(flatten_text(row.module), 48), numeric=False, wrap=True),
        Column("Phase", lambda row: make_text_cell(flatten_text(row.phase)), numeric=False),
        Column("Shapes", lambda row: make_short_cell(flatten_text(row.shapes), 48), numeric=False, wrap=True),
        Column("FLOPs before", lambda row: _make_side_cell(row.before_flops, units.format_flops), weight=Weight.DETAIL),
        Column("FLOPs after", lambda row: _make_side_cell(row.after_flops, units.format_flops), weight=Weight.DETAIL),
        Column("Bytes before", lambda row: _make_side_cell(row.before_bytes, units.format_bytes), weight=Weight.DETAIL),
        Column("Bytes after", lambda row: _make_side_cell(row.after_bytes, units.format_bytes), weight=Weight.DETAIL),
    ]
    return drop_empty_columns(columns, rows)


def _make_op_cell(row: ChangeRow) -> Cell:
    """The op; for compiled code also the ops it replaced."""
    if not row.compiled_names:
        return make_code_cell(flatten_text(row.name))
    compiled, ops = list(map(flatten_text, row.compiled_names)), list(map(flatten_text, row.replaced_ops))
    shown = shorten_kernel(compiled[0].strip("# ").removeprefix("Call "), 40)
    shown = list_first([shown, *compiled[1:]], 1)
    replaced = f" for {format_plural(len(ops), 'op')}: {list_first(ops, _REPLACED)}" if ops else ""
    return Cell(row.name, detail=f"{shown}{replaced}", whole=shorten_middle(", ".join((*compiled, *ops)), 2000))
