"""Reading the allocation events of a memory pass from its trace, each with the phase and the op it happened in."""

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from perfkit.analysis.memory import account
from perfkit.analysis.replay import AllocationEvent, KnownBlock
from perfkit.analysis.result import MemoryAccount, MemoryShare
from perfkit.errors import RunFormatError
from perfkit.record import MARK_PREFIX, PHASES, RankRecord, value_of
from perfkit.store.read import StoredRank

_DEVICE_TYPES = {"cpu": 0, "cuda": 1}  # c10::DeviceType
_US = 1e-6
_CUDA_ROUNDING = 512  # the caching allocator's smallest unit (kMinBlockSize)

# Ops that only obtain memory for the op around them, which is the one worth naming.
_ALLOCATORS = ("aten::empty", "aten::resize_", "aten::new_empty", "aten::zeros", "aten::set_")


class _Args(msgspec.Struct):
    bytes: int = msgspec.field(name="Bytes")
    address: int = msgspec.field(name="Addr")
    device: int = msgspec.field(name="Device Type")
    total: int = msgspec.field(name="Total Allocated", default=0)


class _Event(msgspec.Struct):
    name: str = ""
    ph: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: int | str = 0
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _File(msgspec.Struct):
    trace_events: list[_Event] = msgspec.field(name="traceEvents")


class _Span(NamedTuple):
    start: float
    end: float
    name: str


def rank_account(rank: StoredRank) -> MemoryAccount | None:
    """The account of a rank's memory pass; None where it left none.

    Raises `RunFormatError` for a file that is truncated or no trace.
    """
    environment = rank.record.environment
    if rank.memory is None or environment is None:
        return None
    device = environment.device
    events, start_bytes = read_allocations(rank.memory, device)
    if not events:
        return None
    known = _known(rank.record, device, start_bytes)
    steps = "allocation events of torch.profiler in the memory pass"
    source = f"{steps}, from {sum(block.size_bytes for block in known):,} bytes known when it began"
    if rank.record.world_size > 1:
        source += f"; rank {rank.record.rank}, the fullest of {rank.record.world_size}"
    return account(events, known, source, lambda peak: _beyond(rank.record, device, peak))


def read_allocations(path: Path, device: str) -> tuple[list[AllocationEvent], int]:
    """The events of a device in the order of time, and the bytes its allocator counted before the first."""
    try:
        trace = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_File)
    except (OSError, EOFError, zlib.error) as error:
        raise RunFormatError(f"{path}: not a whole gzip file: {error}") from None
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise RunFormatError(f"{path}: not a trace of torch.profiler: {error}") from None
    phases = _phases(trace.trace_events)
    starts = [phase.start for phase in phases]
    memory = sorted((event for event in trace.trace_events if event.name == "[memory]"), key=lambda event: event.ts)
    names = _ops_around(trace.trace_events, memory)
    events: list[AllocationEvent] = []
    before = 0
    for event, op in zip(memory, names, strict=True):
        try:
            args = msgspec.json.decode(event.args, type=_Args)
        except msgspec.ValidationError as error:
            raise RunFormatError(f"{path}: a [memory] event is not as expected: {error}") from None
        if args.device != _DEVICE_TYPES[device]:
            continue
        if not events:
            before = args.total - args.bytes
        index = bisect_right(starts, event.ts) - 1
        inside = index >= 0 and event.ts < phases[index].end
        phase = phases[index].name if inside else ""
        events.append(AllocationEvent(event.ts * _US, args.address, args.bytes, phase, index, op))
    return events, before


def _phases(events: Sequence[_Event]) -> list[_Span]:
    marks = {MARK_PREFIX + phase: phase for phase in PHASES}
    spans = (
        _Span(event.ts, event.ts + event.dur, marks[event.name])
        for event in events
        if event.cat == "user_annotation" and event.name in marks
    )
    return sorted(spans)


def _ops_around(events: Sequence[_Event], memory: Sequence[_Event]) -> list[str]:
    """For each memory event, the innermost op of its thread that does more than obtain memory; "" for none."""
    threads: dict[int | str, list[tuple[float, int, int]]] = {}
    ops = [event for event in events if event.cat == "cpu_op"]
    for index, op in enumerate(ops):
        threads.setdefault(op.tid, []).append((op.ts, -1, index))
    for index, event in enumerate(memory):
        threads.setdefault(event.tid, []).append((event.ts, 1, index))
    names = [""] * len(memory)
    for moments in threads.values():
        open_ops: list[_Event] = []
        # Of ops that begin together the longest is the outermost.
        for time, kind, index in sorted(moments, key=lambda m: (m[0], m[1], -ops[m[2]].dur if m[1] < 0 else 0.0)):
            while open_ops and open_ops[-1].ts + open_ops[-1].dur < time:
                open_ops.pop()
            if kind < 0:
                open_ops.append(ops[index])
            else:
                useful = (op.name for op in reversed(open_ops) if not op.name.startswith(_ALLOCATORS))
                names[index] = next(useful, "")
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
