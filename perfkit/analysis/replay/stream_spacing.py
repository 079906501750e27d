"""Gaps between kernels of a stream, and latencies from a launch to its kernel: means and medians of the recording."""

from dataclasses import dataclass

import numpy as np

from perfkit.analysis.replay.device_activities import DeviceActivities
from perfkit.analysis.replay.edges import Flags, Floats
from perfkit.trace.model import NONE, Ints

# A kernel that was queued begins within this after the one before it; what takes longer waited for something else.
_LONGEST_GAP_NS = 20_000
# Kernels that overlap by more than this do so because they may (branches of a graph), not because of a clock.
MOST_OVERLAP_NS = 5_000
# Launches act within this on an idle device; what takes longer waited for something else.
_LONGEST_LATENCY_NS = 60_000
# Without a launch onto an idle stream there is nothing to learn a latency from, without a queued kernel no gap.
_USUAL_LATENCY_NS, _USUAL_GAP_NS = 2_000, 1_000


@dataclass(frozen=True)
class StreamSpacing:
    """In nanoseconds, one row per kernel: `gap` after its predecessor on the stream, `latency` after its launch.

    `point` is when it was handed to the device: the end of its launch, or within the call for those that begin
    before that ends. `queued` marks those that were launched before the one before them had ended.
    """

    gap: Floats
    latency: Floats
    point: Ints
    queued: Flags


def estimate_spacing(device: DeviceActivities) -> StreamSpacing:
    """Estimate gaps and latencies from the recording."""
    before = device.before
    previous_end = np.where(before == NONE, np.iinfo(np.int64).min // 2, device.ended[before])
    recorded_gap = device.begun - previous_end
    launched = device.launched
    early = launched & (device.begun < device.returned)
    # What begins within its call was handed over within it: just before it began, if the stream was idle.
    within = np.clip(np.minimum(device.begun - 2000, device.returned), device.called, None)
    busy = previous_end > device.called
    point = np.where(early, np.where(busy, device.called, within), device.returned)
    point = np.where(launched, point, device.begun)
    latency_s = device.begun - point
    onto_idle = launched & device.leads & (previous_end <= point) & ~early
    latency = _estimate_latencies(device, latency_s, onto_idle)
    queued = (before != NONE) & (~launched | (point + latency <= previous_end) | ~device.leads)
    gap = _estimate_gaps(device, recorded_gap, queued & launched)
    # The recording may show that less is needed.
    gap = np.where(queued, gap, np.minimum(gap, recorded_gap))
    overlaps = (before != NONE) & (recorded_gap < -MOST_OVERLAP_NS)
    kept = (before != NONE) & ~launched
    gap = np.where(overlaps | kept, recorded_gap, gap)
    latency = np.where(queued, np.minimum(latency, np.maximum(latency_s, 0)), latency)
    latency = np.where(early & ~busy, latency_s, np.where(early, np.minimum(latency, latency_s), latency))
    return StreamSpacing(gap, np.maximum(latency, 0.0), point, queued)


def _estimate_latencies(device: DeviceActivities, recorded: Ints, chosen: Flags) -> Floats:
    """The median of its kind (kernel, copy, fill) on an idle stream; that of all where the kind has none."""
    usable = chosen & (recorded <= _LONGEST_LATENCY_NS)
    positive = recorded[device.launched & (recorded > 0)]
    usual = float(np.min(positive, initial=_USUAL_LATENCY_NS))
    overall = float(np.median(recorded[usable])) if usable.any() else usual
    result = np.full(len(device), overall)
    for kind in np.unique(device.kind).tolist():
        its = usable & (device.kind == kind)
        if its.any():
            result[device.kind == kind] = np.median(recorded[its])
    return result


def _estimate_gaps(device: DeviceActivities, recorded: Ints, queued: Flags) -> Floats:
    """The mean gap between queued kernels, by the pair of types (kernel, copy, fill)."""
    usable = queued & (recorded <= _LONGEST_GAP_NS) & (recorded >= -MOST_OVERLAP_NS)
    overall = float(recorded[usable].mean()) if usable.any() else float(_USUAL_GAP_NS)
    pair = device.kind.astype(np.int64) + 16 * np.append(device.kind, 0)[device.before].astype(np.int64)
    result = np.full(len(device), overall)
    for kind in np.unique(pair).tolist():
        its = usable & (pair == kind)
        if its.any():
            result[pair == kind] = recorded[its].mean()
    return result
