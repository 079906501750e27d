"""Collectives: messages, bandwidth, and exposed time."""

from collections.abc import Collection

import numpy as np

from perfkit.analysis.model.trace import CollectiveRow
from perfkit.analysis.trace.roofline.roofs import Roofs, describe_ceiling, explain_excess
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.analysis.trace.time.intervals import Intervals, Ints, measure_covered, merge_intervals
from perfkit.analysis.trace.work.collective_messages import CollectiveMessages, build_message
from perfkit.analysis.trace.work.exposed_time import find_exposed_time
from perfkit.analysis.trace.work.group_hosts import locate_group
from perfkit.analysis.trace.work.work_items import WorkItems, WorkKind
from perfkit.cost.calls.collective import CollectiveType as CollectiveKind
from perfkit.cost.calls.collective import Message, classify_collective, parse_kernel_ranks
from perfkit.devices.links.rates import has_several_links
from perfkit.trace.model import NONE, CollectiveRecord

# Name, group, dtype and message bytes: equal collectives.
MessageKey = tuple[str, str, str, int | None]


def build_collective_rows(
    pieces: WorkItems,
    exchanged: CollectiveMessages,
    asked: Ints,
    reduced: Collection[int],
    parts: int,
    roofs: Roofs,
    device: int,
) -> tuple[CollectiveRow, ...]:
    """Equal collectives together, those that take longest within the windows first.

    Args:
        exchanged: what the pieces exchanged.
        asked: for each piece the row of the op that requested it.
        reduced: messages of `exchanged` that reduce gradients.
        parts: the number of steps, 1 for none.
        device: the critical one, whose wall time and exposed time they have.
    """
    calling = np.isin(np.arange(len(pieces)), asked[asked != NONE])
    rows = np.flatnonzero(pieces.is_kind(WorkKind.COMMUNICATION) & ~calling)
    which = exchanged.which
    if not len(rows):
        return ()
    groups = group_rows(which[rows], np.where(which[rows] == NONE, pieces.label[rows], NONE))
    order, ends = np.argsort(groups.of, kind="stable"), np.cumsum(groups.count_by_group())
    members = np.split(rows[order], ends[:-1])
    windows = merge_intervals(pieces.windows.spans[:, 0], pieces.windows.spans[:, 1])
    alone = find_exposed_time(pieces, windows, device)
    wall_ns, exposed_ns = _measure_exposure(pieces, members, device, windows, alone)
    table = []
    for index, (first, mine) in enumerate(zip(groups.first.tolist(), members, strict=True)):
        within = mine[pieces.step[mine] != NONE]
        number = int(which[rows[first]])
        about = exchanged.table[number] if number != NONE else None
        label = pieces.ops.trace.names[int(pieces.label[rows[first]])]
        name, within_group, dtype, message_bytes = (label, "", "", None) if about is None else make_row_key(about)
        moved = None if about is None else build_message(about)
        kind = classify_collective(name) if moved is None else moved.kind
        # A call that waited least bounds what the transfer takes; calls of unknown size may differ.
        busy_ns = pieces.busy_ns[mine]
        least_ns = 0 if moved is None or not busy_ns.any() else int(busy_ns[busy_ns > 0].min())
        exposed_each = measure_covered(pieces.start_ns[within], pieces.end_ns[within], alone)
        timed, least_s = (moved if least_ns > 0 else None), least_ns / 1e9
        # The factor of the bus bandwidth needs the number of ranks.
        ranks = about.group_size if about is not None and about.group_size > 0 else parse_kernel_ranks(name)
        link = None if moved is None or ranks is None else roofs.link(moved, ranks)
        on_bus = None if about is None or about.group_size <= 0 else timed
        table.append(
            CollectiveRow(
                name=name,
                group=within_group,
                group_size=ranks,
                dtype=dtype,
                message_bytes=message_bytes,
                calls=len(within) / parts,
                seconds=int(pieces.busy_ns[within].sum()) / 1e9 / parts,
                wall_s=int(wall_ns[index]) / 1e9 / parts,
                exposed_s=int(exposed_ns[index]) / 1e9 / parts,
                all_calls=len(mine),
                all_s=int(pieces.busy_ns[mine].sum()) / 1e9,
                algorithm_bandwidth=None if timed is None else timed.compute_algorithm_bandwidth(least_s),
                bus_bandwidth=None if on_bus is None else on_bus.compute_bus_bandwidth(least_s),
                ceiling=None if link is None else link.value,
                ceiling_source=_explain_missing_ceiling(roofs, moved, ranks)
                if link is None
                else describe_ceiling(link),
                efficiency_reason=explain_excess(
                    None if on_bus is None else on_bus.compute_bus_bandwidth(least_s), link, ranks
                ),
                kind="" if kind is None else str(kind),
                requested_kind=_name_requested_calls(pieces, asked[mine], kind),
                volume_bytes=None
                if moved is None or ranks is None
                else moved.bus_factor * moved.bytes * len(within) / parts,
                shortest_s=None if timed is None else least_s,
                transfer_s=None if timed is None else least_s * len(within) / parts,
                exposed_transfer_s=None
                if timed is None
                else min(int(np.minimum(exposed_each, least_ns).sum()), int(exposed_ns[index])) / 1e9 / parts,
                of_gradients=number in reduced,
                hosts=locate_group(() if about is None else about.ranks, ranks, pieces.ops.trace),
            )
        )
    return tuple(sorted(table, key=lambda row: (-row.seconds, -row.all_s)))


def _name_requested_calls(pieces: WorkItems, asked: Ints, kind: CollectiveKind | None) -> str:
    """The requested collective, where the backend ran another kind."""
    trace = pieces.ops.trace
    names = {trace.names[int(pieces.label[row])] for row in np.unique(asked[asked != NONE]).tolist()}
    return ", ".join(sorted(name for name in names if classify_collective(name) is not kind))


def _explain_missing_ceiling(roofs: Roofs, moved: Message | None, ranks: int | None) -> str:
    """The reason that no bandwidth is known for comparison; "" where size or ranks are also unknown."""
    if moved is None or ranks is None or roofs.ceilings is None or not roofs.ceilings.fingerprint:
        return ""
    if roofs.ceilings.links_reason:
        return roofs.ceilings.links_reason
    if has_several_links(roofs.ceilings.links, ranks):
        kinds = sorted({rate.link or "unknown" for rate in roofs.ceilings.links if rate.ranks == ranks})
        return f"measured between {ranks} ranks over {' and '.join(kinds)}: the link in use is unknown"
    if any(rate.ranks == ranks for rate in roofs.ceilings.links):
        return f"not measured by calibration: {moved.kind}"
    return f"not measured between {ranks} ranks here; run `perfkit calibrate --world-size {ranks}`"


def make_row_key(about: CollectiveRecord) -> MessageKey:
    """The key of a row of collectives: name, group, dtype and message bytes."""
    moved = build_message(about)
    return (
        about.name, about.group_description or about.group, about.dtype, None if moved is None else round(moved.bytes)
    )  # fmt: skip


def _measure_exposure(
    pieces: WorkItems, members: list[Ints], device: int, windows: Intervals, alone: Intervals
) -> tuple[Ints, Ints]:
    """For each group of pieces, the time with any running on a device within the windows, and that without compute."""
    its = [mine[pieces.device[mine] == device] for mine in members]
    spans = [merge_intervals(pieces.start_ns[mine], pieces.end_ns[mine]) for mine in its]
    of = np.repeat(np.arange(len(spans)), [len(intervals) for intervals in spans])
    begin, end = np.concatenate(spans).T
    # Sums of doubles are exact up to 2**53 ns, which are 104 days.
    wall, exposed = (
        np.bincount(of, measure_covered(begin, end, intervals), len(spans)) for intervals in (windows, alone)
    )
    return wall.astype(np.int64), exposed.astype(np.int64)
