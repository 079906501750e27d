"""Collectives: what each exchanged, how fast, and what of it was not hidden behind computing."""

import numpy as np

from perfkit.analysis.model.trace import CollectiveRow
from perfkit.analysis.trace.roofs import Roofs, describe
from perfkit.analysis.trace.work.grouping import group
from perfkit.analysis.trace.work.messages import Messages, message_of
from perfkit.analysis.trace.work.pieces import Kind, Pieces
from perfkit.devices.ceiling import Level
from perfkit.trace.read import NONE, Ints


def collective_rows(
    pieces: Pieces, exchanged: Messages, exposed_ns: Ints, parts: int, roofs: Roofs
) -> tuple[CollectiveRow, ...]:
    """Equal collectives within the windows together, the longest first.

    Args:
        exchanged: what the pieces exchanged.
        exposed_ns: what of each piece is not covered by computing.
        parts: the number of steps, 1 for none.
    """
    rows = np.flatnonzero(pieces.of(Kind.COMMUNICATION) & (pieces.step != NONE))
    which = exchanged.which
    if not len(rows):
        return ()
    groups = group(which[rows], np.where(which[rows] == NONE, pieces.label[rows], NONE))
    seconds, exposed = groups.sums(pieces.busy_ns[rows]) / 1e9, groups.sums(exposed_ns[rows]) / 1e9
    counts = groups.counts()
    link = roofs.bandwidth(Level.INTERCONNECT)
    found = []
    for index, first in enumerate(groups.first.tolist()):
        number = int(which[rows[first]])
        about = exchanged.table[number] if number != NONE else None
        moved = None if about is None else message_of(about)
        mean_s = float(seconds[index] / counts[index])
        timed = moved if mean_s > 0 else None
        # The factor of the bus bandwidth needs the number of ranks.
        on_bus = timed if about is not None and about.group_size > 0 else None
        found.append(
            CollectiveRow(
                name=pieces.ops.trace.names[int(pieces.label[rows[first]])] if about is None else about.name,
                group="" if about is None else about.group_description or about.group,
                group_size=about.group_size if about is not None and about.group_size > 0 else None,
                dtype="" if about is None else about.dtype,
                message_bytes=None if moved is None else round(moved.bytes),
                calls=float(counts[index]) / parts,
                seconds=float(seconds[index]) / parts,
                exposed_s=float(exposed[index]) / parts,
                algorithm_bandwidth=None if timed is None else timed.algorithm_bandwidth(mean_s),
                bus_bandwidth=None if on_bus is None else on_bus.bus_bandwidth(mean_s),
                ceiling=None if link is None else link.value,
                ceiling_source="" if link is None else describe(link),
            )
        )
    return tuple(sorted(found, key=lambda row: -row.seconds))
