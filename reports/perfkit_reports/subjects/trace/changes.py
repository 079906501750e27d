"""What changed between two traces: bars and tables by kind of work, phase, module, part of the step, and op."""

from collections.abc import Sequence

from perfkit import units
from perfkit.analysis.compare.groups import KIND, MODULE, PHASE, TIME
from perfkit.analysis.model.difference import GroupChange, TraceDifference
from perfkit.analysis.model.trace_analysis import TraceAnalysis
from perfkit_reports.cells import count, grown, short
from perfkit_reports.charts import changes as chart
from perfkit_reports.document.blocks import Block, Choice, Details, Group, Section, Table
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight
from perfkit_reports.plain import one_line
from perfkit_reports.selection import key
from perfkit_reports.subjects.tables import listed, table
from perfkit_reports.subjects.trace import columns
from perfkit_reports.subjects.trace.headline import file_name
from perfkit_reports.wording import sentence, signed_seconds

# In the order of reading; a way of which there is but one group, with nothing to tell apart, is left out.
_WAYS = ((KIND, "Kind of work"), (PHASE, "Phase"), (MODULE, "Module"), (TIME, "Part of the step"))
_LABEL = "The largest changes of the step; the table below holds the same figures"


def section(analysis: TraceAnalysis) -> Section | None:
    """What changed since another trace; None where nothing is compared."""
    difference = analysis.difference
    if difference is None:
        return None
    after = next((trace for trace in analysis.traces if trace.label == difference.after), None)
    now = difference.after if after is None else file_name(after)
    intro = f"{now} against {file_name(difference.before_trace)}: {signed_seconds(chart.change_of(difference))} a step."
    return Section("changed", "What changed", blocks(difference), intro=(intro,))


def caveats(analysis: TraceAnalysis) -> tuple[str, ...]:
    """What makes the two hard to compare: to be known before anything else."""
    difference = analysis.difference
    return () if difference is None else tuple(map(sentence, difference.notes))


def blocks(difference: TraceDifference, end: str = "") -> tuple[Block, ...]:
    """Bars and tables of a difference; `end` tells the ids of several apart."""
    total_s = chart.change_of(difference)
    ops = chart.chart(f"changes-chart{end}", "Op by op", chart.by_op(difference), total_s, _LABEL)
    if ops is None:
        return listed(f"no-changes{end}", ["The two have no ops that could be matched."], style="empty")
    changed = difference.changes
    rows = table(
        f"changes{end}",
        "Changes by op",
        columns.changes(changed),
        changed,
        "op",
        data="changes",
        weight=Weight.BRIEF,
        about=lambda row: key("op", row.name),
    )
    folded = Details(id=f"all-changes{end}", title="All changed ops as a table", blocks=rows, weight=Weight.BRIEF)
    options: dict[tuple[str, ...], Block] = {}
    for by, title in _WAYS:
        groups = [group for group in difference.groups if group.by == by and (group.before_s or group.after_s)]
        if len(groups) > 1:
            options[title,] = _way(difference, by, title, groups, end)
    options["Op",] = Group(id=f"changes-by-op{end}", blocks=(ops, folded), weight=Weight.BRIEF)
    return (Choice(id=f"changes-by{end}", keys=("Changes by",), options=options, weight=Weight.BRIEF),)


def _way(difference: TraceDifference, by: str, title: str, groups: Sequence[GroupChange], end: str) -> Block:
    name = f"{by.replace(' ', '-')}{end}"
    drawn = chart.chart(
        f"changes-{name}-chart", "", chart.by_group(difference, by), chart.change_of(difference), _LABEL
    )
    most = max(max(group.before_s, group.after_s) for group in groups)
    of: list[Column[GroupChange]] = [
        Column(title, lambda group: short(one_line(group.name), 60), numeric=False, wrap=True, weight=Weight.BRIEF),
        Column("Change", lambda group: grown(group.change_s, signed_seconds), help="per step", weight=Weight.BRIEF),
        Column(
            "Before", lambda group: _side(group.before_s), meter=True, most=most, help="per step", weight=Weight.BRIEF
        ),
        Column(
            "After", lambda group: _side(group.after_s), meter=True, most=most, help="per step", weight=Weight.BRIEF
        ),
    ]
    if by != TIME:
        of.append(Column("Calls", _calls, help="per step, before → after"))
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


def _side(seconds: float) -> Cell:
    return Cell(units.seconds(seconds) if seconds else "–", value=seconds)


def _calls(group: GroupChange) -> Cell:
    was, now = count(group.before_calls), count(group.after_calls)
    return Cell(now if was == now else f"{was} → {now}", value=group.after_calls)
