"""The rows of kernels and of ops: one for each group, and of very many groups the longest, with rows for the rest."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from perfkit.analysis.model.step import OUTSIDE, REST, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.module_rows import rank_rows
from perfkit.analysis.trace.work.group_totals import build_total_row, sum_groups
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups
from perfkit.analysis.trace.work.roofline_rows import build_op_rows
from perfkit.analysis.trace.work.work_items import WorkKind
from perfkit.analysis.trace.work.work_table import WorkTable, build_table
from perfkit.core.note import Note, make_note
from perfkit.devices.accelerator import is_cpu
from perfkit.trace.model import NONE

# Programs have some thousand distinct kernels and ops at most. Traces with a million names (numbered ones, damaged
# ones) would otherwise make reports of gigabytes.
MOST_ROWS = 5000

# Of one of many traces in a report: rows beyond these are too short to matter.
LONGEST_ROWS = 200

OTHER_KERNELS, OTHER_OPS = "(other kernels)", "(other ops)"


def build_kernel_table(kernels: RooflineGroups, step_s: float) -> WorkTable[OpRow]:
    """Build the rows of kernel groups, ranked by savings."""
    return _build_table(kernels, step_s, OTHER_KERNELS, of_kernels=True)


def build_op_table(ops: RooflineGroups, step_s: float) -> WorkTable[OpRow]:
    """Build the rows of op groups, ranked by savings."""
    return _build_table(ops, step_s, OTHER_OPS, of_kernels=False)


def keep_longest_rows(trace: RankTrace) -> RankTrace:
    """The trace with so few rows that a report holds many of them: of each table the longest, in its order.

    On a CPU the ops are the kernels, and stand for them.
    """
    return replace(
        trace,
        kernels=() if is_cpu(trace.device) else _select_longest(trace.kernels),
        ops=_select_longest(trace.ops),
        modules=_select_longest(trace.modules),
        gemms=trace.gemms[:LONGEST_ROWS],
        attentions=trace.attentions[:LONGEST_ROWS],
        host_calls=trace.host_calls[:LONGEST_ROWS],
        gaps=trace.gaps[:LONGEST_ROWS],
        streams=trace.streams[:LONGEST_ROWS],
        queues=trace.queues[:LONGEST_ROWS],
        queue_series=None,
    )


def _select_longest(rows: tuple[OpRow, ...]) -> tuple[OpRow, ...]:
    if len(rows) <= LONGEST_ROWS:
        return rows
    least = sorted((row.seconds for row in rows), reverse=True)[LONGEST_ROWS - 1]
    return tuple(row for row in rows if row.seconds >= least)[:LONGEST_ROWS]


def describe_cut(placed: RooflineGroups, what: str) -> list[Note]:
    """The rows that the tables group; none where they have them all."""
    if len(placed) <= MOST_ROWS:
        return []
    text = f"of {len(placed):,} different {what}, the {MOST_ROWS:,} longest have their own rows; the others are grouped"
    return [make_note("trace.shortened_tables", text, rows=len(placed), shown=MOST_ROWS)]


def _build_table(placed: RooflineGroups, step_s: float, rest: str, *, of_kernels: bool) -> WorkTable[OpRow]:
    order = placed.rank_groups()
    if len(placed) <= MOST_ROWS:
        return build_table(
            build_op_rows(placed, order, step_s, of_kernels=of_kernels), list(order[:, None]), placed.groups
        )
    longest = np.zeros(len(placed), np.bool_)
    longest[np.argsort(-placed.seconds, kind="stable")[:MOST_ROWS]] = True
    order = order[longest[order]]
    own = zip(build_op_rows(placed, order, step_s, of_kernels=of_kernels), order[:, None], strict=True)
    rows = [*own, *_build_rest_rows(placed, np.flatnonzero(~longest), step_s, rest)]
    members = {id(row): groups for row, groups in rows}
    ranked = rank_rows([row for row, _ in rows])
    return build_table(ranked, [members[id(row)] for row in ranked], placed.groups)


def _build_rest_rows(
    placed: RooflineGroups, groups: NDArray[np.int64], step_s: float, name: str
) -> Iterator[tuple[OpRow, NDArray[np.int64]]]:
    """Build the rows of the grouped rest: compute, communication and copies, within and outside steps, so that sums
    hold; returned with their groups."""
    pieces, first = placed.pieces, placed.first[groups]
    for phase, within in (("", pieces.step[first] != NONE), (OUTSIDE, pieces.step[first] == NONE)):
        for kind in WorkKind:
            chosen = groups[within & (pieces.kind[first] == kind)]
            if len(chosen):
                bound = "" if kind == WorkKind.WORK else kind.name.lower()
                together = sum_groups(placed, chosen)
                yield build_total_row(placed, together, step_s, kind=REST, name=name, phase=phase, bound=bound), chosen
