"""The allocation events of a memory pass, each with the phase and the op it happened in."""

import numpy as np

from perfkit.analysis.event_account import account
from perfkit.analysis.replay import FSDP, AllocationEvent, KnownBlock
from perfkit.analysis.result import MemoryAccount, MemoryShare
from perfkit.record import PHASES, RankRecord, value_of
from perfkit.store.read import StoredRank
from perfkit.trace.phases import find_phases
from perfkit.trace.read import NONE, Category, Trace, read_trace

_DEVICE_TYPES = {"cpu": 0, "cuda": 1}  # c10::DeviceType
_CUDA_ROUNDING = 512  # the caching allocator's smallest unit (kMinBlockSize)

# Ops that only obtain memory for the op around them, which is the one worth naming.
_ALLOCATORS = ("aten::empty", "aten::resize_", "aten::new_empty", "aten::zeros", "aten::set_")


def rank_account(rank: StoredRank) -> MemoryAccount | None:
    """The account of a rank's memory pass; None where it left none.

    Raises `RunFormatError` for a file that is truncated or no trace.
    """
    environment = rank.record.environment
    if rank.memory is None or environment is None:
        return None
    device = environment.device
    events, start_bytes = allocations(read_trace(rank.memory), device)
    if not events:
        return None
    known = _known(rank.record, device, start_bytes)
    steps = "allocation events of torch.profiler in the memory pass"
    source = f"{steps}, from {sum(block.size_bytes for block in known):,} bytes known when it began"
    if rank.record.world_size > 1:
        source += f"; rank {rank.record.rank}, the fullest of {rank.record.world_size}"
    return account(events, known, source, lambda peak: _beyond(rank.record, device, peak))


def allocations(trace: Trace, device: str) -> tuple[list[AllocationEvent], int]:
    """The events of a device in the order of time, and the bytes its allocator counted before the first."""
    memory = trace.memory
    mine = np.flatnonzero((memory.device_type == _DEVICE_TYPES[device]) & ~memory.failed)
    times = memory.time_ns[mine]
    phases = find_phases(trace)
    begun = np.searchsorted(phases.start_ns, times, side="right") - 1
    names = _ops_around(trace)
    events = [
        AllocationEvent(
            time_s=time * 1e-9,
            address=address,
            size_bytes=size,
            phase="" if phase == NONE else PHASES[phase],
            phase_index=index,
            op=names[position],
        )
        for time, address, size, phase, index, position in zip(
            times.tolist(),
            memory.address[mine].tolist(),
            memory.size[mine].tolist(),
            phases.at(times).tolist(),
            begun.tolist(),
            mine.tolist(),
            strict=True,
        )
    ]
    before = int(memory.allocated[mine[0]] - memory.size[mine[0]]) if events else 0
    return events, before


def _ops_around(trace: Trace) -> list[str]:
    """For each memory event, the innermost op of its thread that does more than obtain memory; "" for none.

    FSDP resizes storages outside of any op, but marks what it does by ranges: those count as ops.
    """
    memory = trace.memory
    names = [""] * len(memory)
    marked = [number for number, name in enumerate(trace.names) if name.startswith(FSDP)]
    events = trace.of(Category.OP, Category.RANGE)
    ops = events[(trace.category[events] == Category.OP) | np.isin(trace.name[events], marked)]
    for thread in np.unique(memory.thread).tolist():
        mine = ops[trace.thread[ops] == thread]
        starts, ends = trace.start_ns[mine].tolist(), trace.end_ns[mine].tolist()
        labels = [trace.names[number] for number in trace.name[mine].tolist()]
        open_ops: list[int] = []
        following = 0
        for index in np.flatnonzero(memory.thread == thread).tolist():
            time = int(memory.time_ns[index])
            while following < len(starts) and starts[following] <= time:
                open_ops.append(following)
                following += 1
            # An op that has ended stays in the list while one that encloses it goes on.
            while open_ops and ends[open_ops[-1]] < time:
                open_ops.pop()
            around = (labels[op] for op in reversed(open_ops) if ends[op] >= time)
            names[index] = next((name for name in around if not name.startswith(_ALLOCATORS)), "")
    return names


def _known(record: RankRecord, device: str, start_bytes: int) -> list[KnownBlock]:
    """The storages alive when the pass begins.

    CUDA's allocator counts what it had handed out before, in units of 512 bytes: what the training state does not
    explain of it is unknown. A CPU's events count from the start of profiling, so there is nothing to compare with.
    """
    if device == "cpu":
        return [
            KnownBlock(block.address, block.size_bytes, block.category, block.name) for block in record.known_blocks
        ]
    known = [
        KnownBlock(block.address, -(-block.size_bytes // _CUDA_ROUNDING) * _CUDA_ROUNDING, block.category, block.name)
        for block in record.known_blocks
    ]
    rest = start_bytes - sum(block.size_bytes for block in known)
    return [*known, KnownBlock(-1, rest, "unknown", "allocated before the pass, not in the training state")]


def _beyond(record: RankRecord, device: str, peak_bytes: int) -> tuple[MemoryShare, ...]:
    """What a device holds beside the allocator's peak, as far as it was measured."""
    if record.memory is None:
        return ()
    if device == "cpu":
        rss = value_of(record.memory.rss)
        parts = [] if rss is None else [("process beyond the allocator (code, libraries)", rss - peak_bytes)]
    else:
        allocated, reserved, used = (
            value_of(each) for each in (record.memory.allocated, record.memory.reserved, record.memory.driver_used)
        )
        parts = []
        if allocated is not None and reserved is not None:
            parts.append(("reserved but free", reserved - allocated))
        if reserved is not None and used is not None:
            parts.append(("driver beyond the allocator (context, libraries, other processes)", used - reserved))
    return tuple(MemoryShare(category=name, bytes=int(size)) for name, size in parts if size > 0)
