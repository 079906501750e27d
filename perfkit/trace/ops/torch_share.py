"""Decides whether torch is imported for the ops of a trace that only torch may have a formula for.

Importing torch takes seconds and hundreds of megabytes: for less than 1 % of the time it is not worth it, and the
costs of these ops are unknown.
"""

import sys

import numpy as np

from perfkit.core.optional_deps import TORCH, is_torch_installed
from perfkit.cost.formula_table import has_formula, is_left_to_torch
from perfkit.trace.event_names import EventNames
from perfkit.trace.event_nesting import compute_self_time, find_nearest
from perfkit.trace.model import NONE, Ints, Trace

# Of the time of kernels, without kernels of ops.
_LEAST = 0.01


def is_torch_needed(trace: Trace, event: Ints, parent: Ints, kernel_event: Ints, kernel_op: Ints) -> bool:
    """True if torch may cost ops: where it is imported already, or they take enough of the time.

    `event` and `parent` are the ops, `kernel_op` the row that launched each kernel.
    """
    if TORCH in sys.modules or not is_torch_installed():
        return True
    return measure_share_left_to_torch(trace, event, parent, kernel_event, kernel_op) >= _LEAST


def measure_share_left_to_torch(trace: Trace, event: Ints, parent: Ints, kernel_event: Ints, kernel_op: Ints) -> float:
    """The share of the time of which the innermost op that has a formula, or that only torch may have one for, is one
    of the latter."""
    names = EventNames.from_events(trace, event)
    left = names.are(is_left_to_torch) & (trace.signature[event] != NONE)
    if not left.any():
        return 0.0
    nearest = find_nearest(parent, left | names.are(has_formula))
    left = np.append(left, False)[nearest]
    if len(kernel_event):
        spent = (trace.end_ns[kernel_event] - trace.start_ns[kernel_event]).astype(np.float64)
        mine = np.append(left, False)[kernel_op]  # NONE (-1) takes the last entry
    else:
        spent = compute_self_time(trace.start_ns[event], trace.end_ns[event], parent).astype(np.float64)
        mine = left
    return float(spent[mine].sum() / max(spent.sum(), 1.0))
