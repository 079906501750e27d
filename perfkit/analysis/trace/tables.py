"""The rows of kernels and of ops: one for each group, and of very many groups the longest, with rows for the rest."""

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from perfkit.analysis.model.step import OUTSIDE, REST, OpRow
from perfkit.analysis.model.trace import RankTrace
from perfkit.analysis.trace.modules import ranked
from perfkit.analysis.trace.work.pieces import Kind
from perfkit.analysis.trace.work.placed import Placed, rows
from perfkit.analysis.trace.work.table import Table, table_of
from perfkit.analysis.trace.work.totals import total, total_row
from perfkit.devices.peak import CPU
from perfkit.trace.read import NONE

# Programs have some thousand distinct kernels and ops at most. Traces with a million names (numbered ones, damaged
# ones) would otherwise make reports of gigabytes.
MOST_ROWS = 5000

# Of one of many traces in a report: rows beyond these are too short to matter.
LONGEST_ROWS = 200

OTHER_KERNELS, OTHER_OPS = "(other kernels)", "(other ops)"


def kernel_table(kernels: Placed, step_s: float) -> Table[OpRow]:
    """Groups of kernels, ranked by what could be saved."""
    return _table(kernels, step_s, OTHER_KERNELS, of_kernels=True)


def op_table(ops: Placed, step_s: float) -> Table[OpRow]:
    """Groups of ops, ranked by what could be saved."""
    return _table(ops, step_s, OTHER_OPS, of_kernels=False)


def with_longest_rows(trace: RankTrace) -> RankTrace:
    """The trace with so few rows that a report holds many of them: of each table the longest, in its order.

    On a CPU the ops are the kernels, and stand for them.
    """
    return replace(
        trace,
        kernels=() if trace.device == CPU else _longest(trace.kernels),
        ops=_longest(trace.ops),
        modules=_longest(trace.modules),
        gemms=trace.gemms[:LONGEST_ROWS],
        attentions=trace.attentions[:LONGEST_ROWS],
        host_calls=trace.host_calls[:LONGEST_ROWS],
        gaps=trace.gaps[:LONGEST_ROWS],
        streams=trace.streams[:LONGEST_ROWS],
    )


def _longest(rows: tuple[OpRow, ...]) -> tuple[OpRow, ...]:
    if len(rows) <= LONGEST_ROWS:
        return rows
    least = sorted((row.seconds for row in rows), reverse=True)[LONGEST_ROWS - 1]
    return tuple(row for row in rows if row.seconds >= least)[:LONGEST_ROWS]


def cut_note(placed: Placed, what: str) -> str:
    """What the tables leave to the rows of the rest; empty where they have them all."""
    if len(placed) <= MOST_ROWS:
        return ""
    return (
        f"of {len(placed):,} different {what} the {MOST_ROWS:,} longest have rows of their own, the others share some"
    )


def _table(placed: Placed, step_s: float, rest: str, *, of_kernels: bool) -> Table[OpRow]:
    order = placed.rank_groups()
    if len(placed) <= MOST_ROWS:
        return table_of(rows(placed, order, step_s, of_kernels=of_kernels), list(order[:, None]), placed.groups)
    longest = np.zeros(len(placed), np.bool_)
    longest[np.argsort(-placed.seconds, kind="stable")[:MOST_ROWS]] = True
    order = order[longest[order]]
    own = zip(rows(placed, order, step_s, of_kernels=of_kernels), order[:, None], strict=True)
    every = [*own, *_rest(placed, np.flatnonzero(~longest), step_s, rest)]
    members = {id(row): groups for row, groups in every}
    made = ranked([row for row, _ in every])
    return table_of(made, [members[id(row)] for row in made], placed.groups)


def _rest(
    placed: Placed, groups: NDArray[np.int64], step_s: float, name: str
) -> Iterator[tuple[OpRow, NDArray[np.int64]]]:
    """A row each for what computes, communicates and copies, within steps and outside, so that sums of these hold; with
    the groups that it is of."""
    pieces, first = placed.pieces, placed.first[groups]
    for phase, within in (("", pieces.step[first] != NONE), (OUTSIDE, pieces.step[first] == NONE)):
        for kind in Kind:
            chosen = groups[within & (pieces.kind[first] == kind)]
            if len(chosen):
                bound = "" if kind == Kind.WORK else kind.name.lower()
                together = total(placed, chosen)
                yield total_row(placed, together, step_s, kind=REST, name=name, phase=phase, bound=bound), chosen
