"""Exposed time, the part of communication and copies in which nothing computes, and what overlaps what.

Copies and fills within a device's memory do not compute: a collective beside them is exposed.
"""

import numpy as np

from perfkit.analysis.model.launches import Overlap, OverlapRow
from perfkit.analysis.trace.time.intervals import (
    Intervals,
    Ints,
    clip_intervals,
    measure_covered,
    measure_length,
    subtract_intervals,
)
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind

COMPUTE, COMMUNICATION, COPIES = "compute", "communication", "copies"


def find_exposed_time(pieces: WorkItems, spans: Intervals, device: int) -> Intervals:
    """The exposed part of some spans: in which a device computes nothing."""
    return subtract_intervals(spans, pieces.computing_spans[device])


def measure_exposed_ns(pieces: WorkItems, device: int) -> Ints:
    """The exposed part of each piece of a device, 0 of the others."""
    rows = pieces.select_device(device)
    begin, end = pieces.start_ns[rows], pieces.end_ns[rows]
    exposed = np.zeros(len(pieces), np.int64)
    exposed[rows] = end - begin - measure_covered(begin, end, pieces.computing_spans[device])
    return exposed


def measure_overlap(pieces: WorkItems, parts: int, device: int) -> Overlap:
    """Measure a device's communication and copies in the windows and overall, their exposed part, and what overlaps
    what.
    """
    windows, rows = pieces.windows.spans, pieces.select_device(device)
    communication, copies = (
        pieces.merge_spans(pieces.is_kind(WorkKind.COMMUNICATION), rows),
        pieces.merge_spans(pieces.is_kind(WorkKind.COPY), rows),
    )

    def measure_s(spans: Intervals) -> tuple[float, float]:
        return measure_length(spans) / 1e9, measure_length(find_exposed_time(pieces, spans, device)) / 1e9

    of_kinds = {
        COMPUTE: clip_intervals(pieces.computing_spans[device], windows),
        COMMUNICATION: clip_intervals(communication, windows),
        COPIES: clip_intervals(copies, windows),
    }
    sent, copied = measure_s(of_kinds[COMMUNICATION]), measure_s(of_kinds[COPIES])
    all_sent, all_copied = measure_s(communication), measure_s(copies)
    return Overlap(
        communication_s=sent[0] / parts,
        exposed_communication_s=sent[1] / parts,
        copies_s=copied[0] / parts,
        exposed_copies_s=copied[1] / parts,
        all_communication_s=all_sent[0],
        all_exposed_communication_s=all_sent[1],
        all_copies_s=all_copied[0],
        all_exposed_copies_s=all_copied[1],
        pairs=tuple(_build_overlap_row(kind, of_kinds, parts) for kind in of_kinds),
    )


def _build_overlap_row(kind: str, of_kinds: dict[str, Intervals], parts: int) -> OverlapRow:
    mine = of_kinds[kind]
    alone, together = mine, {}
    for other, spans in of_kinds.items():
        if other != kind:
            alone = subtract_intervals(alone, spans)
            together[other] = measure_length(clip_intervals(mine, spans)) / 1e9 / parts
    return OverlapRow(
        kind=kind,
        seconds=measure_length(mine) / 1e9 / parts,
        alone_s=measure_length(alone) / 1e9 / parts,
        with_compute_s=together.get(COMPUTE),
        with_communication_s=together.get(COMMUNICATION),
        with_copies_s=together.get(COPIES),
    )
