"""The times without device work, and their causes."""

from collections.abc import Iterator

import numpy as np

from perfkit.analysis.model import timeline as words
from perfkit.analysis.model.idle import CAUSES
from perfkit.analysis.timeline.lane_slices import LaneSlices, TextTable, make_slices
from perfkit.analysis.timeline.trace_context import TraceContext
from perfkit.trace.model import NONE


def build_idle_lane(whole: TraceContext, texts: TextTable, begin: int, end: int) -> Iterator[LaneSlices]:
    """One slice per piece of one cause, with the CPU activity; it links to the call charged with it, else to the launch
    that ended it."""
    time = whole.idle
    if time is None:
        return
    here = np.flatnonzero((time.end_ns > begin) & (time.begin_ns < end))
    if not len(here):
        return
    cause = texts.add_texts(time.cause[here].astype(np.int64), CAUSES.__getitem__)
    launch = np.append(whole.ops.kernels.launch, NONE)[time.following[here]].astype(np.int64)
    yield make_slices(
        words.IDLE, "idle", time.begin_ns[here], time.end_ns[here], name=cause, kind=cause,
        shapes=texts.add_texts(whole.idle_place[here], whole.idle_texts.__getitem__),
        link=np.where(time.event[here] != NONE, time.event[here], launch),
    )  # fmt: skip
