"""Streams that wait for each other: by recorded events, and by delays without another reason."""

import re

import numpy as np

from perfkit.analysis.replay.device_activities import DeviceActivities
from perfkit.analysis.replay.edges import EdgeKind, Edges, Flags, Floats, make_edges
from perfkit.analysis.replay.recorded_waits import has_recorded_waits, match_stream_waits
from perfkit.devices.accelerator import ROCM
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import Category, Ints
from perfkit.trace.ops.ops import Ops

# A kernel that begins this soon after one of another stream ended, for no reason that is known, waited for it.
_SOON_NS = {"rocm": 30_000, "": 12_000}
# Starts within this time of a known cause need no further one.
_EXPLAINED_NS = 3_000

_RECORDS = re.compile(r"(cuda|hip)EventRecord(WithFlags)?|cuEventRecord(WithFlags)?(_ptsz)?")
_WAITS = re.compile(r"(cuda|hip)StreamWaitEvent|cuStreamWaitEvent(_ptsz)?")


def find_event_edges(ops: Ops, device: DeviceActivities) -> Edges:
    """Edges from the last kernel before an event's record to the first after the wait for it.

    By the trace's records, else by its calls. Where the recording contradicts them, or both are on one stream, there is
    no edge.
    """
    source, target = match_stream_waits(ops, device) if has_recorded_waits(ops) else _match_event_calls(ops, device)
    source, target = np.unique(np.stack([source, target]), axis=1)
    fits = (device.lane[source] != device.lane[target]) & (device.ended[source] <= device.begun[target])
    source, target = source[fits], target[fits]
    lag = device.begun[target] - device.ended[source]
    near = lag[lag <= _SOON_NS[""]]
    usual = float(np.median(near)) if len(near) else 0.0
    return make_edges(EdgeKind.EVENT, source, target, np.minimum(lag, usual), carries=True)


def _match_event_calls(ops: Ops, device: DeviceActivities) -> tuple[Ints, Ints]:
    """Calls name neither event nor stream. A wait is for the event that its thread recorded last, which stands behind
    what was launched last before; it holds up what is launched next.
    """
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    records = calls[mark_named(trace, calls, lambda name: _RECORDS.fullmatch(name) is not None)]
    waits = calls[mark_named(trace, calls, lambda name: _WAITS.fullmatch(name) is not None)]
    sources, targets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    order = device.by_call
    for thread in np.unique(trace.thread[waits]).tolist():
        its = order[device.thread[order] == thread]
        called = device.called[its]
        at = trace.start_ns[waits[trace.thread[waits] == thread]]
        recorded = trace.start_ns[records[trace.thread[records] == thread]]
        last = np.searchsorted(recorded, at) - 1
        at, last = at[last >= 0], last[last >= 0]
        before = np.searchsorted(called, recorded[last]) - 1
        after = np.searchsorted(called, at)
        good = (before >= 0) & (after < len(its))
        sources.append(its[before[good]])
        targets.append(its[after[good]])
    return np.concatenate(sources), np.concatenate(targets)


def infer_edges(ops: Ops, device: DeviceActivities, explained: Floats) -> Edges:
    """Edges to kernels that begin later than all that is known (`explained`), just after another stream's kernel."""
    soon = _SOON_NS["rocm" if _is_amd(ops) else ""]
    order = device.by_end
    late = np.flatnonzero(device.begun > explained + _EXPLAINED_NS)
    row = np.searchsorted(device.ended[order], device.begun[late], side="right") - 1
    late, row = late[row >= 0], row[row >= 0]
    source = order[row]
    fits: Flags = (
        (device.lane[source] != device.lane[late])
        & (device.begun[late] - device.ended[source] <= soon)
        & (device.ended[source] > explained[late])
        & ops.devices.share_process(source, late)
    )
    source, late = source[fits], late[fits]
    return make_edges(EdgeKind.INFERRED, source, late, device.begun[late] - device.ended[source], carries=True)


def _is_amd(ops: Ops) -> bool:
    trace = ops.trace
    calls = trace.select_events(Category.LAUNCH)
    return bool(mark_named(trace, calls, lambda name: ROCM.calls.match(name) is not None).any())
