"""The roofline limits of groups of work, by the roofs of the devices that they ran on."""

from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.trace.roofline.device_roofs import DeviceRoofs
from perfkit.analysis.trace.roofline.roofline import (
    BOUNDS,
    TOLERANCE,
    UNKNOWN,
    RooflineLimits,
    combine_limits,
    compute_limits,
)
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.time.grouping import RowGroups
from perfkit.analysis.trace.work.link_copies import find_link, parse_copy_kind
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind

Floats = NDArray[np.float64]


class GroupTimes(NamedTuple):
    """Calls, seconds and bytes of each group."""

    calls: Floats
    seconds: Floats
    bytes: Floats


def limit_groups(
    pieces: WorkItems, costs: WorkItemCosts, groups: RowGroups, times: GroupTimes, roofs: DeviceRoofs
) -> RooflineLimits:
    """Limit each group, which is of one kind of device, by its roofs."""
    limits = [_limit_by_kind(pieces, costs, groups, times, own) for own in roofs.kinds]
    if len(limits) == 1:
        return limits[0]
    kind = roofs.find_kinds(pieces.device[groups.first])
    columns = ([getattr(one, field.name) for one in limits] for field in fields(RooflineLimits))
    return RooflineLimits(*(np.choose(kind, column) for column in columns))


def _limit_by_kind(
    pieces: WorkItems, costs: WorkItemCosts, groups: RowGroups, times: GroupTimes, roofs: Roofs
) -> RooflineLimits:
    calls, seconds, moved = times
    limited = compute_limits(groups.sum_by_group(costs.compute_s(roofs, costs.flops)), moved, seconds, calls, roofs)
    if costs.is_bounded.any():
        most = groups.sum_by_group(costs.compute_s(roofs, costs.most_flops))
        limited = combine_limits(
            limited, compute_limits(most, groups.sum_by_group(costs.most_bytes), seconds, calls, roofs), seconds
        )
    _limit_copies(pieces, groups, moved, seconds, roofs, limited)
    untimed = pieces.has_unknown_time[groups.first]
    limited.attainable_s[untimed], limited.above_roof[untimed] = np.nan, False
    limited.bound[untimed] = BOUNDS.index(UNKNOWN)
    return limited


def _limit_copies(
    pieces: WorkItems, groups: RowGroups, moved: Floats, seconds: Floats, roofs: Roofs, limited: RooflineLimits
) -> None:
    """Limit copies by their link; communication has no place on this roofline."""
    kinds = pieces.kind[groups.first]
    limited.attainable_s[kinds != WorkKind.WORK] = np.nan
    limited.above_roof[kinds != WorkKind.WORK] = False
    limited.bound[kinds != WorkKind.WORK] = BOUNDS.index(UNKNOWN)
    for index in np.flatnonzero(kinds == WorkKind.COPY).tolist():
        link = find_link(parse_copy_kind(pieces.ops.trace.names[int(pieces.name[groups.first[index]])]), roofs)
        if link is not None:
            limited.attainable_s[index] = moved[index] / link.value
            limited.above_roof[index] = seconds[index] * TOLERANCE < limited.attainable_s[index]
