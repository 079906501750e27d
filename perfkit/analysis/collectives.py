"""Collectives: what each exchanged, how fast, and what of it was not hidden behind computing."""

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.grouping import group
from perfkit.analysis.roofs import Roofs, describe
from perfkit.analysis.trace_result import CollectiveRow
from perfkit.analysis.work import Kind, Pieces
from perfkit.cost.collective import Message, message
from perfkit.devices.ceiling import Level
from perfkit.trace.read import NONE, Collective, Ints

# What a collective recorded lies on its kernel or on one of the innermost ops around the launch (`record_param_comms`).
_LEVELS = 4


def collective_of(pieces: Pieces) -> Ints:
    """For each piece the index of its collective in the trace's table, NONE where nothing was recorded."""
    trace, ops = pieces.ops.trace, pieces.ops
    found = trace.collective[pieces.event].astype(np.int64)
    innermost = ops.kernel_op if pieces.on_device else pieces.owner
    of_op = np.append(trace.collective[ops.event].astype(np.int64), NONE)
    parent = np.append(ops.parent, NONE)
    row = innermost
    for _ in range(_LEVELS):
        found = np.where(found == NONE, of_op[row], found)
        row = parent[row]
    return np.where(pieces.of(Kind.COMMUNICATION), found, NONE)


def sizes(table: list[Collective], which: Ints) -> NDArray[np.float64]:
    """The size of each collective's message in bytes (as nccl-tests counts it), NaN where it is not known."""
    known = [_message(each) for each in table]
    return np.asarray([*(np.nan if each is None else each.bytes for each in known), np.nan])[which]


def _message(about: Collective) -> Message | None:
    return message(about.name, about.dtype, about.sent, about.received, about.group_size)


def collective_rows(
    pieces: Pieces, which: Ints, exposed_ns: Ints, parts: int, roofs: Roofs
) -> tuple[CollectiveRow, ...]:
    """Equal collectives within the windows together, the longest first.

    Args:
        which: `collective_of` the pieces.
        exposed_ns: what of each piece is not covered by computing.
        parts: the number of steps, 1 for none.
    """
    rows = np.flatnonzero(pieces.of(Kind.COMMUNICATION) & (pieces.step != NONE))
    if not len(rows):
        return ()
    groups = group(which[rows], np.where(which[rows] == NONE, pieces.name[rows], NONE))
    seconds, exposed = groups.sums(pieces.busy_ns[rows]) / 1e9, groups.sums(exposed_ns[rows]) / 1e9
    counts = groups.counts()
    link = roofs.bandwidth(Level.INTERCONNECT)
    found = []
    for index, first in enumerate(groups.first.tolist()):
        number = int(which[rows[first]])
        about = pieces.ops.trace.collectives[number] if number != NONE else None
        moved = None if about is None else _message(about)
        mean_s = float(seconds[index] / counts[index])
        timed = moved if mean_s > 0 else None
        found.append(
            CollectiveRow(
                name=pieces.ops.trace.names[int(pieces.name[rows[first]])] if about is None else about.name,
                group="" if about is None else about.group_description or about.group,
                group_size=about.group_size if about is not None and about.group_size > 0 else None,
                dtype="" if about is None else about.dtype,
                message_bytes=None if moved is None else round(moved.bytes),
                calls=float(counts[index]) / parts,
                seconds=float(seconds[index]) / parts,
                exposed_s=float(exposed[index]) / parts,
                algorithm_bandwidth=None if timed is None else timed.algorithm_bandwidth(mean_s),
                bus_bandwidth=None if timed is None else timed.bus_bandwidth(mean_s),
                ceiling=None if link is None else link.value,
                ceiling_source="" if link is None else describe(link),
            )
        )
    return tuple(sorted(found, key=lambda row: -row.seconds))
