"""How long collectives transferred data, once all ranks had arrived, and how long they waited before."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from perfkit.analysis.model.trace import LAST_ARRIVAL, ONE_HOST, SEVERAL_HOSTS, CollectiveRow, RankTrace
from perfkit.analysis.ranks.skew import MatchedCollectives
from perfkit.analysis.ranks.slots import CollectiveRows, Slots
from perfkit.analysis.trace.collective_rows import MessageKey
from perfkit.trace.model import NONE


class Transfers(NamedTuple):
    """The calls of one message in the steps of a rank whose last arrival is known, in seconds."""

    calls: int
    seconds: float
    transfer_s: float
    exposed_transfer_s: float


class MeasuredTransfers(NamedTuple):
    """The transfers of the trace at `path`."""

    path: str
    by_message: Mapping[MessageKey, Transfers]


def measure_transfers(
    path: str,
    rows: CollectiveRows,
    slots: Slots,
    matched: MatchedCollectives,
    keys: Sequence[MessageKey],
    steps: Sequence[int] | None,
) -> MeasuredTransfers:
    """The transfers of a rank in its `steps`, by number; None for a trace without."""
    slot = slots.find_slots(rows)
    used = matched.counted[slot] & (rows.message != NONE)
    if steps is not None:
        used &= np.isin(rows.step, steps)
    message, slot = rows.message[used], slot[used]
    lasted = (rows.end_ns - rows.start_ns)[used]
    transfer = np.minimum(matched.transfer_ns[slot], lasted)
    count = np.bincount(message, minlength=len(keys))
    sums = [
        np.bincount(message, column, len(keys)) / 1e9
        for column in (lasted, transfer, np.minimum(transfer, rows.exposed_ns[used]))
    ]
    return MeasuredTransfers(
        path,
        {
            keys[number]: Transfers(int(count[number]), *(float(column[number]) for column in sums))
            for number in np.flatnonzero(count).tolist()
        },
    )


def apply_transfers(
    traces: Sequence[RankTrace], measured: Sequence[MeasuredTransfers], hosts: Sequence[str]
) -> list[RankTrace]:
    """The traces with what other ranks show of their collectives; `hosts` are those of all ranks, empty if unknown.

    Calls that were not matched transfer in at most the time of the shortest equal call on any rank.
    """
    by_path = {each.path: each.by_message for each in measured}
    least: dict[MessageKey, float] = {}
    for trace in traces:
        for row in trace.collectives:
            if row.shortest_s is not None:
                least[_get_key(row)] = min(row.shortest_s, least.get(_get_key(row), row.shortest_s))
    return [
        replace(
            trace,
            collectives=tuple(
                _locate_row(_bound_row(row, trace, least, by_path.get(trace.file_info.path, {})), hosts)
                for row in trace.collectives
            ),
        )
        for trace in traces
    ]


def _bound_row(
    row: CollectiveRow, trace: RankTrace, least: Mapping[MessageKey, float], known: Mapping[MessageKey, Transfers]
) -> CollectiveRow:
    key, transfer_s, exposed_s = _get_key(row), row.transfer_s, row.exposed_transfer_s
    if transfer_s is None or exposed_s is None or key not in least:
        return row
    parts, found = max(1, len(trace.steps)), known.get(key)
    calls = round(row.calls * parts)
    if found is not None and found.calls <= calls and calls:
        rest = least[key] * (calls - found.calls)
        row = replace(
            row,
            transfer_s=min(row.seconds, (found.transfer_s + rest) / parts),
            exposed_transfer_s=min(row.exposed_s, (found.exposed_transfer_s + rest) / parts),
            transfer_basis=LAST_ARRIVAL if 2 * found.calls >= calls else row.transfer_basis,
        )
    else:
        row = replace(
            row,
            transfer_s=min(transfer_s, least[key] * row.calls),
            exposed_transfer_s=min(exposed_s, least[key] * row.calls),
        )
    return _update_bandwidths(row)


def _update_bandwidths(row: CollectiveRow) -> CollectiveRow:
    if not row.transfer_s or not row.calls or row.message_bytes is None:
        return row
    algorithm = row.message_bytes * row.calls / row.transfer_s
    return replace(
        row,
        algorithm_bandwidth=algorithm,
        bus_bandwidth=row.bus_bandwidth
        and row.algorithm_bandwidth
        and algorithm * row.bus_bandwidth / row.algorithm_bandwidth,
    )


def _locate_row(row: CollectiveRow, hosts: Sequence[str]) -> CollectiveRow:
    """Whether the group shares a host, where traces name theirs."""
    if not all(hosts) or row.group_size is None:
        return row
    if len(set(hosts)) == 1 and row.group_size <= len(hosts):
        return replace(row, hosts=ONE_HOST)
    return replace(row, hosts=SEVERAL_HOSTS) if len(set(hosts)) > 1 and row.group_size >= len(hosts) else row


def _get_key(row: CollectiveRow) -> MessageKey:
    return row.name, row.group, row.dtype, row.message_bytes
