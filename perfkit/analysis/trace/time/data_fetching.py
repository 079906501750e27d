"""The times at which a loop fetches its data, from its trace."""

import re

from perfkit.analysis.trace.time.intervals import Intervals, merge_intervals
from perfkit.core.record.trace_marks import MARK_PREFIX
from perfkit.trace.event_names import mark_named
from perfkit.trace.model import Category, Ints, Trace

_LOADER = re.compile(r"enumerate\(DataLoader\).*")
_OUR_PHASE = f"{MARK_PREFIX}data"


def find_fetches(trace: Trace) -> Ints:
    """The ranges in which a batch was fetched: those that perfkit marked, else those of torch's DataLoader."""
    ranges = trace.select_events(Category.RANGE, Category.OP)
    # Where perfkit marked the phase, DataLoader's own mark lies within it and would count twice.
    ours = ranges[mark_named(trace, ranges, lambda name: name == _OUR_PHASE)]
    if len(ours):
        return ours
    theirs: Ints = ranges[mark_named(trace, ranges, lambda name: _LOADER.fullmatch(name) is not None)]
    return theirs


def merge_event_times(trace: Trace, events: Ints) -> Intervals:
    """The time that events take together."""
    return merge_intervals(trace.start_ns[events], trace.end_ns[events])
