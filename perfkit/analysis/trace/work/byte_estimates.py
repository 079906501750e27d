"""Marks estimates of bytes that are not valid: an op without a formula may touch less than its arguments."""

from dataclasses import replace

import numpy as np

from perfkit.analysis.trace.roofline.roofline import TOLERANCE
from perfkit.analysis.trace.roofline.roofs import Roofs
from perfkit.analysis.trace.work.work_item_costs import WorkItemCosts
from perfkit.analysis.trace.work.work_items import WorkItems


def drop_impossible_estimates(costs: WorkItemCosts, pieces: WorkItems, roofs: Roofs) -> WorkItemCosts:
    """The costs without estimates above the memory's bandwidth, judged by all calls of a kind together.

    A cache may be faster; but then the estimate tells nothing of the memory.
    """
    bandwidth = roofs.find_bandwidth()
    if bandwidth is None or not costs.estimated.any():
        return costs
    chosen = np.flatnonzero(costs.estimated)
    call = pieces.call[chosen]
    moved, busy_ns = (np.bincount(call, column[chosen]) for column in (costs.bytes, pieces.busy_ns))
    too_fast = moved > TOLERANCE * bandwidth.value * busy_ns / 1e9
    dropped = np.zeros(len(pieces), np.bool_)
    dropped[chosen] = too_fast[call]
    return replace(
        costs,
        bytes=np.where(dropped, np.nan, costs.bytes),
        most_bytes=np.where(dropped, np.nan, costs.most_bytes),
        estimated=costs.estimated & ~dropped,
    )
