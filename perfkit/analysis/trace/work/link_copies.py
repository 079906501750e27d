"""Copies over a link: their kind, bytes, and bandwidth relative to the link."""

import re

import numpy as np
from numpy.typing import NDArray

from perfkit.analysis.model.trace import CopyRow
from perfkit.analysis.trace.roofline.roofs import Roofs, describe_ceiling, explain_excess
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingLevel
from perfkit.trace.event_names import EventNames
from perfkit.trace.model import Category, Ints, Trace

HTOD, DTOH, DTOD, PTOP = "HtoD", "DtoH", "DtoD", "PtoP"
UNTOLD = "copy"

# Names of CUDA, ROCm, XPU and JAX. M is CPU memory.
_KINDS = (
    (re.compile(r"HtoD|H2D|HostToDevice|M2D", re.IGNORECASE), HTOD),
    (re.compile(r"DtoH|D2H|DeviceToHost|D2M", re.IGNORECASE), DTOH),
    (re.compile(r"PtoP|P2P|PeerToPeer", re.IGNORECASE), PTOP),
    (re.compile(r"DtoD|D2D|DeviceToDevice", re.IGNORECASE), DTOD),
)


def parse_copy_kind(name: str) -> str:
    """`HtoD`, `DtoH`, `DtoD` or `PtoP` from a copy's name; else `copy`."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), UNTOLD)


def is_pageable_copy(name: str) -> bool | None:
    """True if the CPU side is pageable memory; None where the name does not show it."""
    if "pageable" in name.lower():
        return True
    return False if "pinned" in name.lower() else None


def find_link_copies(trace: Trace, events: Ints) -> NDArray[np.bool_]:
    """Mask the copies that leave the device's memory."""
    names = trace.name[events]
    copies = trace.category[events] == Category.COPY
    inside = [name for name in np.unique(names[copies]).tolist() if parse_copy_kind(trace.names[name]) == DTOD]
    leaving: NDArray[np.bool_] = copies & ~np.isin(names, inside)
    return leaving


def find_link(kind: str, roofs: Roofs) -> Ceiling | None:
    """The link that a kind of copy goes over; None where it or its rate is not known."""
    if kind in (HTOD, DTOH):
        return roofs.find_bandwidth(CeilingLevel.HOST_LINK)
    return roofs.find_bandwidth(CeilingLevel.INTERCONNECT) if kind == PTOP else None


def build_copy_rows(trace: Trace, events: Ints, exposed_ns: Ints, parts: int, roofs: Roofs) -> tuple[CopyRow, ...]:
    """Group equal copies, the longest first, without copies within the device.

    Args:
        events: copies over a link, as rows of the trace.
        exposed_ns: what of each is not covered by computing.
        parts: the number of steps, 1 for none.
    """
    if not len(events):
        return ()
    names = EventNames.from_events(trace, events)
    groups: dict[tuple[str, bool | None], int] = {}
    look = np.zeros(len(trace.names), np.int64)
    for number in names.occurring:
        called = trace.names[number]
        look[number] = groups.setdefault((parse_copy_kind(called), is_pageable_copy(called)), len(groups))
    kinds = group_rows(look[names.column])
    durations = trace.end_ns[events] - trace.start_ns[events]
    moved = trace.moved_bytes[events]
    # A rate needs the bytes of every copy.
    moved_bytes = kinds.sum_by_group(np.where(moved < 0, np.nan, moved.astype(np.float64)))
    seconds, exposed, counts = (
        kinds.sum_by_group(durations) / 1e9,
        kinds.sum_by_group(exposed_ns) / 1e9,
        kinds.count_by_group(),
    )
    rows = []
    for index, first in enumerate(kinds.first.tolist()):
        name = trace.names[int(names.column[first])]
        kind = parse_copy_kind(name)
        link = find_link(kind, roofs)
        total = None if np.isnan(moved_bytes[index]) else float(moved_bytes[index])
        rate = None if total is None or seconds[index] == 0 else total / float(seconds[index])
        rows.append(
            CopyRow(
                kind=kind,
                pageable=is_pageable_copy(name),
                calls=float(counts[index]) / parts,
                bytes=None if total is None else round(total / parts),
                seconds=float(seconds[index]) / parts,
                exposed_s=float(exposed[index]) / parts,
                bandwidth=rate,
                ceiling=None if link is None else link.value,
                ceiling_source="" if link is None else describe_ceiling(link),
                efficiency_reason=explain_excess(rate, link),
            )
        )
    return tuple(sorted(rows, key=lambda row: -row.seconds))
