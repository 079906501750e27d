"""Groups of work with their cost and their place on the roofline."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.step import OUTSIDE
from perfkit.analysis.trace.roofline.device_roofs import DeviceRoofs
from perfkit.analysis.trace.roofline.roofline import (
    RooflineLimits,
)
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.time.grouping import RowGroups
from perfkit.analysis.trace.time.wall_time import has_overlap, measure_group_wall_ns, measure_wall_ns
from perfkit.analysis.trace.work.call_spread import CallSpread, measure_spread
from perfkit.analysis.trace.work.group_limits import GroupTimes, limit_groups
from perfkit.analysis.trace.work.kernel_load import KernelLoad
from perfkit.analysis.trace.work.layers import name_group_modules
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.model import NONE

Floats = NDArray[np.float64]

# The op of work without a known launching op.
NO_OP = "(no op recorded)"


@dataclass(frozen=True)
class RooflineGroups:
    """Columns, one row a group of equal pieces; totals of the whole trace, not per step.

    `precision` is that of most of the group's FLOPs, NONE where nothing is known of it. With `by_op` a call is all that
    an op did, else one piece.
    """

    pieces: WorkItems
    costs: WorkItemCosts
    groups: RowGroups
    calls: Floats
    seconds: Floats
    flops: Floats
    bytes: Floats
    precision: NDArray[np.int64]
    limits: RooflineLimits
    roofs: DeviceRoofs
    by_op: bool

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def first(self) -> NDArray[np.int64]:
        """The first piece of each group: its keys are those of all."""
        return self.groups.first

    def get_roofs(self, index: int) -> Roofs:
        """The roofs of the device that a group ran on."""
        return self.roofs.get_roofs(int(self.pieces.device[self.first[index]]))

    @cached_property
    def counted_share(self) -> Floats:
        """The share of each group's pieces with costs counted by hardware."""
        return self.groups.sum_by_group(self.costs.counted) / self.groups.count_by_group()

    @cached_property
    def module_names(self) -> list[str]:
        """The module of each group, for groups that span layers."""
        pieces = self.pieces
        return name_group_modules(self.groups, pieces.module, pieces.busy_ns, pieces.ops.modules)

    @cached_property
    def most_flops(self) -> Floats:
        """The most that each group can have computed."""
        return self.groups.sum_by_group(self.costs.most_flops)

    @cached_property
    def most_bytes(self) -> Floats:
        """The most that each group can have moved."""
        return self.groups.sum_by_group(self.costs.most_bytes)

    @cached_property
    def estimated(self) -> NDArray[np.bool_]:
        """Groups whose bytes are, for some of their pieces, but those of recorded arguments."""
        estimated: NDArray[np.bool_] = self.groups.sum_by_group(self.costs.estimated) > 0
        return estimated

    @cached_property
    def wall_s(self) -> Floats | None:
        """The time with any piece of each group running, an upper bound; None where no pieces overlap."""
        pieces = self.pieces
        if not has_overlap(pieces.start_ns, pieces.end_ns):
            return None
        # An op's own time excludes its children's.
        return np.minimum(measure_group_wall_ns(self.groups, pieces.start_ns, pieces.end_ns) / 1e9, self.seconds)

    @cached_property
    def spread(self) -> CallSpread:
        """The spread of each group's calls; those of an op count where its first piece does."""
        pieces = self.pieces
        if not self.by_op:
            return measure_spread(self.groups.of, pieces.busy_ns, len(self))
        _, first, call = np.unique(_number_calls(pieces), return_index=True, return_inverse=True)
        busy_ns = np.bincount(call, pieces.busy_ns, len(first)).astype(np.int64)
        return measure_spread(self.groups.of[first], busy_ns, len(self))

    @cached_property
    def load(self) -> KernelLoad:
        """The means of each group's kernels, weighted with their durations; NaN where one of them is not known."""
        pieces = self.pieces
        weight = np.maximum(pieces.busy_ns, 1).astype(np.float64)
        total = self.groups.sum_by_group(weight)
        return KernelLoad(*(self.groups.sum_by_group(column * weight) / total for column in pieces.load))

    @cached_property
    def critical_s(self) -> Floats | None:
        """The time of each group on the critical path; None where unknown."""
        critical = self.pieces.critical
        return None if critical is None else self.groups.sum_by_group(self.pieces.busy_ns * critical) / 1e9

    @cached_property
    def _members(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pieces by group, and where each group's begin."""
        return np.argsort(self.groups.of, kind="stable"), np.concatenate(([0], np.cumsum(self.groups.count_by_group())))

    def measure_wall_s(self, chosen: NDArray[np.int64]) -> float | None:
        """The time with any piece of some groups running, an upper bound; None where no pieces overlap."""
        if self.wall_s is None:
            return None
        order, first = self._members
        rows = np.sort(
            np.concatenate([order[first[group] : first[group + 1]] for group in chosen.tolist()] or [order[:0]])
        )
        wall = measure_wall_ns(self.pieces.start_ns[rows], self.pieces.end_ns[rows]) / 1e9
        return min(wall, float(self.seconds[chosen].sum()))

    @property
    def wasted(self) -> Floats:
        """The potential savings of each group in seconds; NaN where unknown."""
        return np.maximum(self.seconds - self.limits.attainable_s, 0.0)

    def rank_groups(self) -> NDArray[np.int64]:
        """Rank groups by savings, then those without known savings by time; groups of steps first."""
        outside = self.pieces.step[self.first] == NONE
        return np.lexsort((-self.seconds, -np.nan_to_num(self.wasted, nan=-1.0), outside))


def place_groups(
    pieces: WorkItems, costs: WorkItemCosts, groups: RowGroups, roofs: DeviceRoofs, *, by_op: bool
) -> RooflineGroups:
    """Sum the costs of groups and find their limits. With `by_op` an op's pieces are one call, else each is one.

    Each group is of one kind of device.
    """
    seconds = groups.sum_by_group(pieces.busy_ns) / 1e9
    calls = groups.sum_by_group(_mark_call_starts(pieces)) if by_op else groups.count_by_group().astype(np.float64)
    flops, moved = groups.sum_by_group(costs.flops), groups.sum_by_group(costs.bytes)
    return RooflineGroups(
        pieces,
        costs,
        groups,
        calls,
        seconds,
        flops,
        moved,
        _find_dominant_precision(costs, groups),
        limit_groups(pieces, costs, groups, GroupTimes(calls, seconds, moved), roofs),
        roofs,
        by_op,
    )


def _mark_call_starts(pieces: WorkItems) -> NDArray[np.bool_]:
    """Marks one piece of each call."""
    marks = np.zeros(len(pieces), np.bool_)
    marks[np.unique(_number_calls(pieces), return_index=True)[1]] = True
    return marks


def _number_calls(pieces: WorkItems) -> NDArray[np.int64]:
    """The same number for all pieces of an op and kind; each piece whose op is not known has its own."""
    op = pieces.owner.astype(np.int64) * len(WorkKind) + pieces.kind
    return np.where(pieces.owner == NONE, -1 - np.arange(len(pieces)), op)


def _find_dominant_precision(costs: WorkItemCosts, groups: RowGroups) -> NDArray[np.int64]:
    count = len(costs.precisions)
    if not count:
        return np.full(len(groups), NONE, np.int64)
    known = costs.precision != NONE
    # A group without FLOPs has a precision too: a little is given to each piece.
    weight = np.nan_to_num(costs.flops[known]) + 1e-9
    cell = groups.of[known].astype(np.int64) * count + costs.precision[known]
    table = np.bincount(cell, weight, len(groups) * count).reshape(len(groups), count)
    return np.where(table.sum(axis=1) > 0, table.argmax(axis=1), NONE)


def get_phase(pieces: WorkItems, row: int) -> str:
    """The phase of a piece in words."""
    if pieces.step[row] == NONE:
        return OUTSIDE
    return "" if pieces.phase[row] == NONE else PHASES[int(pieces.phase[row])]


def get_module(pieces: WorkItems, row: int) -> str:
    """The module of a piece in words."""
    number = int(pieces.module[row])
    return "" if number == NONE else pieces.ops.modules[number]


def count_parts(pieces: WorkItems) -> int:
    """The divisor of figures per step."""
    return max(len(pieces.windows), 1)
