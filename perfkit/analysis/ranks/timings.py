"""Latency and skew of collectives of several ranks, by message."""

from collections.abc import Mapping, Sequence

import numpy as np

from perfkit.analysis.model.fleet import CollectiveTiming
from perfkit.analysis.model.trace import ONE_HOST, SEVERAL_HOSTS
from perfkit.analysis.ranks.arrivals import CollectiveKind
from perfkit.analysis.ranks.skew import MatchedCollectives
from perfkit.analysis.ranks.slot_messages import SlotMessages
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.analysis.trace.time.grouping import group_rows
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.trace.model import NONE


def build_timings(
    matched: MatchedCollectives,
    messages: SlotMessages,
    kinds: Sequence[CollectiveKind],
    keys: Sequence[MessageKey],
    parts: int,
    hosts: Sequence[str],
    hosts_by_message: Mapping[MessageKey, str],
) -> tuple[CollectiveTiming, ...]:
    """A row per kind, group and largest message, the one that takes longest first.

    `hosts` are those of the ranks; where they are unknown, `hosts_by_message` is whether a group's ranks share one.
    """
    used = np.flatnonzero(matched.counted)
    if not len(used):
        return ()
    total_bytes = messages.total_bytes[used]
    groups = group_rows(matched.kind[used], messages.largest[used], np.isfinite(total_bytes))
    count = groups.count_by_group()
    means = [
        groups.sum_by_group(column[used]) / count / 1e9
        for column in (matched.transfer_ns, matched.start_skew_ns, matched.end_skew_ns)
    ]
    summed = groups.sum_by_group(total_bytes) / count
    worst = np.zeros(len(groups))
    np.maximum.at(worst, groups.of, matched.transfer_ns[used] / 1e9)
    rows = []
    for index, first in enumerate(used[groups.first].tolist()):
        about, number = kinds[int(matched.kind[first])], int(messages.largest[first])
        nbytes = None if number == NONE else keys[number][3]
        size = about.size if about.size > 0 else None
        latency, start, end = (float(column[index]) for column in means)
        bandwidth = None
        if nbytes and size is not None and latency > 0:
            bandwidth = make_message_of_size(CollectiveType(about.kind), nbytes, size).compute_bus_bandwidth(latency)
        rows.append(
            CollectiveTiming(
                name=about.kind,
                group=about.shown,
                group_size=size,
                message_bytes=nbytes,
                summed_bytes=float(summed[index]) if np.isfinite(summed[index]) else None,
                calls=int(count[index]) / parts,
                latency_s=latency,
                worst_latency_s=float(worst[index]),
                start_skew_s=start,
                end_skew_s=end,
                bus_bandwidth=bandwidth,
                hosts=_locate(size, int(matched.ranks[first]), hosts)
                or ("" if number == NONE else hosts_by_message.get(keys[number], "")),
            )
        )
    return tuple(
        sorted(rows, key=lambda row: (-row.calls * row.latency_s, row.name, row.group, row.message_bytes or 0))
    )


def _locate(size: int | None, seen: int, hosts: Sequence[str]) -> str:
    """Whether a group shares a host, where the hosts of all ranks are known and one, or the group is all of them."""
    if not all(hosts) or (size is not None and seen < size):
        return ""
    if len(set(hosts)) == 1:
        return ONE_HOST
    return SEVERAL_HOSTS if seen == len(hosts) else ""
