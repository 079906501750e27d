"""Programs that used a device of which their trace holds nothing: its ops have only started the work."""

import re

import numpy as np

from perfkit.core.note import Note, has_note, make_note
from perfkit.trace.event_names import mark_named
from perfkit.trace.memory.device_names import CPU, get_device_name
from perfkit.trace.model import Category, Trace
from perfkit.trace.ops.ops import Ops
from perfkit.trace.readers.event_table.remarks import CUT_OFF

# Calls that start work: of CUDA, HIP, Level Zero and Unified Runtime.
_STARTING = re.compile(r"(cu|cuda|hip|ze|ur)(?=[A-Z])\w*(Launch|Mem(ory)?(cpy|set|Copy|Fill|BufferCopy))\w*")
# Ops that no CPU has.
_OF_A_GPU = re.compile(r"aten::_?(cudnn|miopen)_(?!is_acceptable)")
# Ranges around collectives that only GPUs run.
_NCCL = "nccl:"
# With a smaller share of launches, a trace without kernels is a CPU trace with occasional device use.
_FEW = 0.01


def explain_unseen_device(ops: Ops) -> str:
    """The reason that no work of a used device is recorded; empty where some is, or none was used."""
    trace = ops.trace
    if trace.has_device_events:
        return ""
    launches = int(
        mark_named(trace, trace.select_events(Category.LAUNCH), lambda name: _STARTING.match(name) is not None).sum()
    )
    if is_cut_off(trace) and (launches or trace.devices):
        return "the file ends before the device events"
    if launches > _FEW * len(ops):
        known = "recognized" if len(trace.select_events(Category.UNKNOWN)) >= launches else "recorded"
        return f"no kernels {known}, though {launches:,} were launched"
    return _explain_use_without_launch(ops)


def _explain_use_without_launch(ops: Ops) -> str:
    """The same without recorded runtime calls: memory and ops reveal the device."""
    memory = ops.trace.memory
    allocations = np.flatnonzero((memory.device_type != CPU) & (memory.size > 0))
    if len(allocations):
        name = get_device_name(memory, int(allocations[0]))
        return f"no work on {name} recorded, though memory was allocated there"
    needs = np.flatnonzero(mark_named(ops.trace, ops.event, lambda name: _OF_A_GPU.match(name) is not None))
    trace = ops.trace
    ranges = trace.select_events(Category.RANGE)
    needs = np.concatenate((ops.event[needs], ranges[mark_named(trace, ranges, lambda name: name.startswith(_NCCL))]))
    return f"no kernels recorded, though {trace.names[int(trace.name[needs[0]])]} launches some" if len(needs) else ""


def describe_unused_device(trace: Trace) -> list[Note]:
    """A remark on a trace without launches or work of a device, where a device may have been used."""
    if trace.has_device_events or len(trace.select_events(Category.LAUNCH)):
        return []
    if is_cut_off(trace):
        return [
            make_note(
                "trace.unused_device", "the end of the file is missing, including any device work: times are CPU times"
            )
        ]
    names = ", ".join(dict.fromkeys(trace.devices.values()))
    text = f"no work on {names} recorded: if the program used it, times cover launches only"
    return [make_note("trace.unused_device", text)] if names else []


def is_cut_off(trace: Trace) -> bool:
    """True if the end of the file is missing: profilers write device events after the ops."""
    return has_note(trace.notes, *CUT_OFF)
