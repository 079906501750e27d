"""The memory of a trace, where its profiler recorded allocations."""

from collections.abc import Sequence

from msgspec.structs import replace

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.note import Note, make_note
from perfkit.devices.accelerator import is_cpu
from perfkit.trace.memory.consistency import describe_inconsistencies
from perfkit.trace.memory.trace_allocations import build_ops_allocations
from perfkit.trace.ops.ops import Ops

_CPU_ONLY = "the CPU's memory only"


def summarize_memory(ops: Ops) -> tuple[MemoryAccount | None, tuple[Note, ...]]:
    """The account of the fullest GPU, of the CPU where no GPU's memory was recorded, None where none was; and remarks.

    The size of an account depends on how many ops, modules and steps a trace has, not on how many allocations.
    """
    accounts = [
        accounted
        for allocations in build_ops_allocations(ops)
        if (accounted := build_memory_account(allocations)) is not None
    ]
    if not accounts:
        return None, ()
    shown = find_fullest(accounts)
    others = _list_other_devices(accounts, shown)
    if is_cpu(shown.device) and ops.trace.has_device_events:
        shown = replace(shown, source=f"{_CPU_ONLY}: {shown.source}")
    return shown, (*others, *describe_inconsistencies(ops.trace.memory))


def find_fullest(accounts: Sequence[MemoryAccount]) -> MemoryAccount:
    """That with the highest peak, GPUs before the CPU."""
    return max(accounts, key=lambda accounted: (not is_cpu(accounted.device), accounted.peak_bytes))


def make_fullness_key(memory: MemoryAccount | None) -> tuple[bool, int]:
    """The sort key of rank accounts: those that ran out of memory last, then by peak."""
    return (False, -1) if memory is None else (memory.failed_request is not None, memory.peak_bytes)


def shorten_account(memory: MemoryAccount | None, rows: int) -> MemoryAccount | None:
    """Shorten an account for reports on hundreds: its balance, and the first rows of its tables."""
    if memory is None:
        return None
    return replace(
        memory,
        rows=memory.rows[:rows],
        growth=memory.growth[:rows],
        step_peaks=(),
        timeline_s=(),
        timeline_categories={},
        bands=(),
    )


def _list_other_devices(accounts: Sequence[MemoryAccount], shown: MemoryAccount) -> list[Note]:
    names = [accounted.device for accounted in accounts if accounted is not shown]
    if not names:
        return []
    text = f"memory of {shown.device} only; the trace also has {', '.join(names)}: see perfkit memory"
    return [make_note("trace.other_memory", text, device=shown.device)]
