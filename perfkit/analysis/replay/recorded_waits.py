"""The waits that a trace records (its sync events): the kernel before an event, and the waiting work."""

import numpy as np

from perfkit.analysis.replay.device_activities import DeviceActivities
from perfkit.analysis.replay.edges import Flags
from perfkit.trace.match_ids import find_latest_before
from perfkit.trace.model import NONE, SYNC_KINDS, Category, Ints
from perfkit.trace.ops.ops import Ops

_OF_EVENT, _OF_STREAM, _HOST_FOR_STREAM = map(SYNC_KINDS.index, ("Event Sync", "Stream Wait Event", "Stream Sync"))


def has_recorded_waits(ops: Ops) -> bool:
    """True if a trace records which stream waited for which: then no other wait exists.

    torch's own CUPTI backend writes -1 for the stream whose event is waited for.
    """
    syncs = ops.trace.syncs
    return bool(((syncs.kind == _OF_STREAM) & (syncs.source != NONE)).any())


def match_stream_waits(ops: Ops, device: DeviceActivities) -> tuple[Ints, Ints]:
    """Pairs of rows of the device: the last before an event's record on its stream, the first after a wait for it."""
    syncs = ops.trace.syncs
    chosen = np.flatnonzero(syncs.kind == _OF_STREAM)
    call = _find_calls(ops, syncs.call[chosen], syncs.time_ns[chosen])
    source = _find_work_before_record(ops, device, chosen, call)
    target = _find_launched(
        device, _find_lanes(ops, device, syncs.device[chosen], syncs.stream[chosen]), _get_begin(ops, call), True
    )
    both = (call != NONE) & (source != NONE) & (target != NONE)
    return source[both], target[both]


def match_host_waits(ops: Ops, device: DeviceActivities, calls: Ints) -> Ints:
    """For each of some calls, the device row that it waited for, NONE where not recorded.

    A call that waits for a whole context has none: that is what was launched before, on any stream.
    """
    syncs = ops.trace.syncs
    if not len(syncs):
        return np.full(len(calls), NONE)
    result = np.full(len(ops.trace) + 1, NONE, np.int64)
    of_event, of_stream = (np.flatnonzero(syncs.kind == kind) for kind in (_OF_EVENT, _HOST_FOR_STREAM))
    call = _find_calls(ops, syncs.call[of_event], syncs.time_ns[of_event])
    result[call] = _find_work_before_record(ops, device, of_event, call)
    call = _find_calls(ops, syncs.call[of_stream], syncs.time_ns[of_stream])
    lane = _find_lanes(ops, device, syncs.device[of_stream], syncs.stream[of_stream])
    result[call] = _find_launched(device, lane, _get_begin(ops, call), False)
    return result[calls]


def _find_work_before_record(ops: Ops, device: DeviceActivities, rows: Ints, call: Ints) -> Ints:
    """The last work given to its stream before the event that each of some calls waits for was recorded.

    An event may be recorded again after the wait; older Kineto then names the later record, which does not help.
    """
    syncs = ops.trace.syncs
    record = _find_calls(ops, syncs.record[rows], _get_begin(ops, call))
    last_rows = _find_launched(
        device, _find_lanes(ops, device, syncs.device[rows], syncs.source[rows]), _get_begin(ops, record), False
    )
    return np.where((record == NONE) | (_get_begin(ops, record) > _get_begin(ops, call)), NONE, last_rows)


def _find_calls(ops: Ops, correlation: Ints, time_ns: Ints) -> Ints:
    """The events of the calls that correlation ids mean at these times."""
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    known = find_latest_before(correlation, time_ns, trace.correlation[calls], trace.start_ns[calls])
    return np.where(known == NONE, NONE, np.append(calls, NONE)[known])


def _get_begin(ops: Ops, calls: Ints) -> Ints:
    return np.append(ops.trace.start_ns, 0)[calls]


def _find_lanes(ops: Ops, device: DeviceActivities, number: Ints, stream: Ints) -> Ints:
    """The lanes of streams, NONE of one that ran nothing."""
    trace = ops.trace
    lanes, first = np.unique(device.lane, return_index=True)
    event = ops.kernels.event[first]
    result = np.full(len(number), NONE, np.int64)
    for lane, of, its in zip(lanes, trace.device[event], trace.stream[event], strict=True):
        result[(number == of) & (stream == its)] = lane
    return result


def _find_launched(device: DeviceActivities, lane: Ints, at: Ints, after: bool) -> Ints:
    """The last work given to each lane before each moment, or the first after it; NONE without any."""
    result = np.full(len(lane), NONE, np.int64)
    for number in np.unique(lane[lane != NONE]).tolist():
        asked: Flags = lane == number
        its = np.flatnonzero(device.launched & (device.lane == number))
        its = its[np.argsort(device.called[its], kind="stable")]
        place = np.searchsorted(device.called[its], at[asked]) - (not after)
        result[asked] = np.concatenate((its, [NONE]))[np.clip(place, -1, len(its))]
    return result
