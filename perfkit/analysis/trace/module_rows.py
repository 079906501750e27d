"""Rows for the tree of modules: every level with all beneath it."""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import OUTSIDE, OpRow
from perfkit.analysis.trace.work.group_totals import build_total_row, sum_groups
from perfkit.analysis.trace.work.roofline_groups import RooflineGroups
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import NONE

# Most modules; further ones are part of their parents' rows.
MOST_MODULES = 5000

# Separates the levels of a module's path.
_LEVEL = "/"


def build_module_rows(ops: RooflineGroups, step_s: float) -> tuple[OpRow, ...]:
    """Build a row per module with its submodules, over all phases, ranked by savings. `ops` groups by op and module."""
    module = np.where(ops.pieces.step[ops.first] != NONE, ops.pieces.module[ops.first], NONE)
    order = np.argsort(module, kind="stable")
    beneath: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
    for mine in np.split(order, np.flatnonzero(np.diff(module[order])) + 1):
        number = int(module[mine[0]]) if len(mine) else NONE
        if number == NONE:
            continue
        levels = ops.pieces.ops.modules[number].split(_LEVEL)
        for depth in range(len(levels)):
            beneath[_LEVEL.join(levels[: depth + 1])].append(mine)
    together = {path: np.concatenate(groups) for path, groups in beneath.items()}
    longest = sorted(together, key=lambda path: -float(ops.seconds[together[path]].sum()))[:MOST_MODULES]
    totals = {path: sum_groups(ops, together[path]) for path in longest}
    rows = [
        build_total_row(ops, sums, step_s, kind="module", name=path.rpartition(_LEVEL)[2], module=path)
        for path, sums in totals.items()
    ]
    return rank_rows(rows)


def build_phase_rows(ops: RooflineGroups, step_s: float) -> tuple[OpRow, ...]:
    """Build a row per phase in step order, and one for work outside phases."""
    inside = ops.pieces.step[ops.first] != NONE
    phase = ops.pieces.phase[ops.first]
    rows = []
    for number, name in [*enumerate(PHASES), (NONE, "")]:
        chosen = np.flatnonzero(inside & (phase == number))
        if len(chosen):
            rows.append(
                build_total_row(ops, sum_groups(ops, chosen), step_s, kind="phase", name=name or "no phase", phase=name)
            )
    return tuple(rows)


def rank_rows(rows: list[OpRow]) -> tuple[OpRow, ...]:
    """Rank rows by savings, then those without known savings by time; rows of steps first."""

    def key(row: OpRow) -> tuple[bool, bool, float, float]:
        unknown = row.attainable_s is None
        won = 0.0 if row.attainable_s is None else max(row.seconds - row.attainable_s, 0.0)
        return row.phase == OUTSIDE, unknown, -won, -row.seconds

    return tuple(sorted(rows, key=key))
