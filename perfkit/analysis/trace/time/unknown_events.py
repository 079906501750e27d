"""Traces of other tools: events of unknown kind, which are neither work nor waiting."""

import numpy as np

from perfkit.analysis.trace.time.intervals import EMPTY, Intervals, merge_intervals, subtract_intervals
from perfkit.trace.model import Category, Ints, Trace
from perfkit.trace.ops.ops import Ops

_KNOWN = (Category.OP, Category.LAUNCH, Category.PYTHON)
_NAMED = 3


def explain_unknown_events(ops: Ops) -> str:
    """The reason that nothing is known of the work of a trace; empty if an op, a kernel or a call was recognized."""
    trace = ops.trace
    if trace.has_device_events or len(ops) or len(trace.select_events(Category.LAUNCH)):
        return ""
    unknown = trace.select_events(Category.UNKNOWN)
    if not len(unknown):
        return "no op, kernel or call is recorded"
    if trace.foreign_content:
        return f"no op or kernel in {len(trace):,} events; the longest: {_name_longest(trace, unknown)}"
    return (
        f"no op or kernel is recognized in {len(trace):,} events, {len(unknown):,} of them of unknown kind "
        f"({_name_longest(trace, unknown)})"
    )


def explain_missing_work(ops: Ops) -> str:
    """The words for a trace of known events in which no op works and nothing was started on a device."""
    calls = len(ops.trace.select_events(Category.LAUNCH))
    recorded = "no op" if not len(ops) else f"no op that works among {len(ops):,}"
    return f"{recorded} and no kernel is recorded" + (f"; calls of a device's runtime: {calls:,}" if calls else "")


def _name_longest(trace: Trace, unknown: Ints) -> str:
    """The names of the events that took the most time, each once."""
    lasting = np.bincount(trace.name[unknown], trace.end_ns[unknown] - trace.start_ns[unknown], len(trace.names))
    longest = np.argsort(-lasting, kind="stable")[:_NAMED]
    return ", ".join(trace.names[index] for index in longest[lasting[longest] > 0].tolist())


def find_unknown_time(ops: Ops, windows: Intervals) -> Intervals:
    """When events of unknown kind, and none of a known kind, were going on: all `windows` where no work is known."""
    trace = ops.trace
    if explain_unknown_events(ops):
        return windows
    unknown = trace.select_events(Category.UNKNOWN)
    if not len(unknown):
        return EMPTY
    known = trace.select_events(*_KNOWN)
    return subtract_intervals(
        merge_intervals(trace.start_ns[unknown], trace.end_ns[unknown]),
        merge_intervals(trace.start_ns[known], trace.end_ns[known]),
    )
