"""Reads snapshots of torch's caching allocator (`torch.cuda.memory._dump_snapshot`), as pickle or JSON.

The format is that of torch/csrc/cuda/memory_snapshot.cpp and Module.cpp, from torch 2.0 on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import (
    GRAPH_POOL,
    MEMORY_POOL,
    NONE,
    UNKNOWN,
    Allocations,
    FailedRequest,
    InitialBlock,
    Ints,
    PrivateSegment,
    TextNumbers,
    build_allocations,
)
from perfkit.core.errors import RunFormatError
from perfkit.core.note import Note, make_note
from perfkit.core.record.trace_marks import PHASES
from perfkit.core.units import format_bytes
from perfkit.trace.memory.block_sizes import AllocatorSettings
from perfkit.trace.memory.history import (
    ALLOC,
    GRAPHS,
    OOM,
    PROGRAMS,
    SHARED,
    AllocatorHistory,
    HeldMemory,
    build_held_memory,
    build_history,
)
from perfkit.trace.memory.history_replay import replay_history
from perfkit.trace.memory.memory_file import MemoryFile
from perfkit.trace.memory.pools import classify_pools
from perfkit.trace.memory.snapshot_text import load_snapshot
from perfkit.trace.memory.stack_origins import BY_LIFE, StackClassifier, StackOrigin
from perfkit.trace.memory.step_phases import (
    BACKWARD,
    DATA,
    MarkedRanges,
    build_bands,
    count_steps_by_optimizer,
    count_visits,
    fill_phases,
    find_batches,
    parse_marked_ranges,
)

KIND = "allocator snapshot (torch.cuda.memory._dump_snapshot)"
SOURCE = "the caching allocator's history, by stream, in the order of requests"
STATE = "the caching allocator's state at one time, without history"
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, OverflowError, IndexError)


def read_snapshot(path: str | Path) -> MemoryFile:
    """Read a snapshot at a path or URL: `_dump_snapshot`'s pickle, or `_snapshot()` (or `memory_snapshot()`) as JSON,
    plain or gzip. One `Allocations` for each device that has a history or segments.

    `RunFormatError` names a file that is no such snapshot.
    """
    label = str(path)
    return parse_snapshot(load_snapshot(label), label)


def parse_snapshot(snapshot: object, label: str) -> MemoryFile:
    """Parse a plain snapshot. Its histories are removed from it, to free them one by one."""
    if isinstance(snapshot, list):
        snapshot = {"segments": snapshot}
    if not isinstance(snapshot, dict) or not isinstance(snapshot.get("segments"), list):
        raise RunFormatError(
            f"{label}: not a torch memory snapshot: no list of segments; write one with "
            "torch.cuda.memory._dump_snapshot(FILE)"
        )
    traces = snapshot.get("device_traces") or []
    try:
        _refuse_repeated(traces, snapshot["segments"])
        settings = AllocatorSettings.from_snapshot(snapshot.get("allocator_settings") or {})
        segments: dict[int, list[Mapping[str, Any]]] = {}
        for segment in snapshot["segments"]:
            segments.setdefault(int(segment.get("device", 0)), []).append(segment)
        recordings, notes = [], []
        for device in sorted({*segments, *(at for at, trace in enumerate(traces) if trace)}):
            entries = traces[device] if 0 <= device < len(traces) else []
            own = segments.pop(device, [])
            pools = classify_pools(own, entries)
            held, history = build_held_memory(own, pools), build_history(entries, pools)
            entries.clear()
            one = _SnapshotDevice(f"{_detect_device_kind(history, held)}:{device}", history, held, settings)
            recordings.append(one.build_allocations(*parse_marked_ranges(snapshot.get("external_annotations"), device)))
            notes += one.describe_gaps()
    except _MALFORMED as error:
        raise RunFormatError(
            f"{label}: not a valid torch memory snapshot ({type(error).__name__}: {error}); write it "
            "again with torch.cuda.memory._dump_snapshot(FILE)"
        ) from None
    if not recordings:
        raise RunFormatError(
            f"{label}: an empty snapshot: no device memory was allocated; call "
            "torch.cuda.memory._record_memory_history() "
            "before the first allocation and _dump_snapshot(FILE) after some steps"
        )
    return MemoryFile(kind=KIND, allocations=tuple(recordings), notes=tuple(notes))


def _detect_device_kind(history: AllocatorHistory, held: HeldMemory) -> str:
    """The kind of device, which a snapshot does not name (`torch.xpu.memory` writes the same): by its addresses."""
    high = (history.address < 0).any() or (held.segment < 0).any()
    return "xpu" if high else "cuda"


def _refuse_repeated(traces: list[Any], segments: list[Any]) -> None:
    """Lists that occur twice in a pickle cost nothing there and their whole length here; torch writes none."""
    lists = [entries for entries in traces if entries] + [segment["blocks"] for segment in segments]
    if len({id(entries) for entries in lists}) != len(lists):
        raise ValueError("one list is shared by several devices or segments")


class _SnapshotDevice:
    """One device of a snapshot, on its way to `Allocations`."""

    def __init__(self, name: str, history: AllocatorHistory, held: HeldMemory, settings: AllocatorSettings) -> None:
        self._name, self._history, self._held = name, history, held
        self._replay = replay_history(history, held, settings)
        self._names, self._stacks = TextNumbers(), StackClassifier()
        self._places = [self._stacks.place(stack) for stack in history.stacks]

    def build_allocations(self, phases: MarkedRanges, steps: MarkedRanges) -> Allocations:
        """Build the events with the evidence of their stacks, contexts and enclosing ranges."""
        if not len(self._replay.events):
            return self._build_state()
        replayed, history, names = self._replay, self._history, self._names
        events, allocated = replayed.events, replayed.size > 0
        stack = history.stack[events]
        owned = allocated.copy()  # whether the stack is that of the event itself
        free = np.flatnonzero(~allocated & (replayed.allocated_by != NONE))
        if any(history.stacks[index] for index in np.unique(stack[free]).tolist()):  # else only allocations have any
            owned[free] = stack[free] != stack[replayed.allocated_by[free]]
        time_ns = events if history.time_ns is None else history.time_ns[events]
        phase = self._find_phases(stack, owned)
        step = np.full(len(events), NONE, np.int64)
        if history.time_ns is not None:
            by_mark = phases.find_numbers(time_ns)
            phase, step = np.where(by_mark != NONE, by_mark, phase), steps.find_numbers(time_ns)
        phase[self._mark_program_stacks()[stack] & find_batches(fill_phases(phase, allocated), stack, allocated)] = DATA
        phase = fill_phases(phase, allocated)
        if not len(steps.number):
            step = count_steps_by_optimizer(phase)
        visit = count_visits(phase, step)
        numbers = np.array([(names.number(place.op), names.number(place.line)) for place in self._places], np.int32)
        contexts = np.array([names.number(context) for context in history.contexts], np.int32)
        category = self._find_categories(stack, visit)
        return build_allocations(
            device=self._name,
            source=SOURCE,
            names=names.list_texts(),
            time_ns=time_ns,
            address=history.address[events],
            size=replayed.size,
            phase=phase,
            visit=visit,
            step=step,
            op=np.where(owned, numbers[stack, 0], 0),
            line=np.where(allocated, numbers[stack, 1], 0),
            module=np.where(allocated, contexts[history.context[events]], 0),
            category=category,
            known=self._list_known_blocks(replayed.from_start),
            unexplained_bytes=-int(replayed.size[~allocated & (replayed.allocated_by == NONE)].sum()),
            reserved=replayed.reserved,
            private=self._list_private_segments(),
            bands=build_bands(phase, step, visit, time_ns),
            failed=self._build_failed_request(events, phase, step),
            failures=tuple(np.searchsorted(events, np.flatnonzero(history.action == OOM)).tolist()),
        )

    def _find_phases(self, stack: Ints, owned: NDArray[np.bool_]) -> Ints:
        """Find phases from stacks. With Python stacks, entries without one ran on a thread without Python; those that
        allocate on a device are autograd's."""
        by_stack = np.array([place.phase for place in self._places], np.int64)
        empty = np.array([not frames for frames in self._history.stacks], np.bool_)
        if any(place.line for place in self._places):
            by_stack[empty] = BACKWARD
        return np.where(owned, by_stack[stack], NONE)

    def _mark_program_stacks(self) -> NDArray[np.bool_]:
        """Mark stacks with the program's own code, whose purpose torch does not record."""
        return np.array([bool(place.line) and not place.purpose for place in self._places], np.bool_)

    def _find_categories(self, stack: Ints, visit: Ints) -> Ints:
        """Categories of allocations by stack and pool, and where the stack leaves it open, by whether they outlive the
        phase."""
        replayed, number = self._replay, self._names.number
        allocated = np.flatnonzero(replayed.size > 0)
        purposes = np.array([0 if place.purpose in BY_LIFE else number(place.purpose) for place in self._places])
        category = np.zeros(len(stack), np.int64)
        category[allocated] = purposes[stack[allocated]]
        until = np.append(visit, NONE)[replayed.freed_by[allocated]]
        ended = np.where(until == NONE, visit[-1], until)
        for purpose, (brief, lasting) in BY_LIFE.items():
            open_ = np.array([place.purpose == purpose for place in self._places], np.bool_)[stack[allocated]]
            category[allocated[open_ & (until == visit[allocated])]] = number(brief)
            category[allocated[open_ & (ended > visit[allocated])]] = number(lasting)
        pool = self._find_pools()[allocated]
        category[allocated[pool == GRAPHS]] = number(GRAPH_POOL)
        category[allocated[(pool == PROGRAMS) & (category[allocated] == 0)]] = number(MEMORY_POOL)
        return category

    def _find_pools(self) -> NDArray[np.int8]:
        """The pool kind of events: as recorded, else of the segment at that address at the end."""
        events = self._replay.events
        if self._history.in_pool is not None:
            return self._history.in_pool[events]
        return self._find_pools_at(self._history.address[events])

    def _find_pools_at(self, address: Ints) -> NDArray[np.int8]:
        held = self._held
        if not held.in_pool.any():
            return np.zeros(len(address), np.int8)
        at = np.maximum(np.searchsorted(held.segment, address, side="right") - 1, 0)
        inside = (address >= held.segment[at]) & (address < held.segment[at] + held.segment_size[at])
        return np.where(inside, held.in_pool[at], SHARED).astype(np.int8)

    def _list_private_segments(self) -> tuple[PrivateSegment, ...]:
        held = self._held
        segments = []
        for at in np.flatnonzero(held.in_pool == GRAPHS).tolist():
            start, size = int(held.segment[at]), int(held.segment_size[at])
            used = int(held.block_size[(held.block >= start) & (held.block < start + size)].sum())
            segments.append(PrivateSegment(start, size, size - used))
        return tuple(segments)

    def _list_known_blocks(self, blocks: Ints) -> tuple[InitialBlock, ...]:
        """List initial blocks that are still held at the end, with the evidence of their stacks."""
        held = self._held
        pools = self._find_pools_at(held.block)
        places = {id(stack): self._stacks.place(stack) for stack in (held.stacks[at] for at in blocks.tolist())}
        return tuple(
            InitialBlock(
                address=int(held.block[at]),
                size_bytes=int(held.block_size[at]),
                category=_get_standing_category(places[id(held.stacks[at])], int(pools[at])),
                name=places[id(held.stacks[at])].line,
            )
            for at in blocks.tolist()
        )

    def _build_state(self) -> Allocations:
        """Build a state without history: every held block counts as allocated, in order of addresses, at no time."""
        held, number = self._held, self._names.number
        chosen = np.flatnonzero(held.allocated)
        places = [self._stacks.place(held.stacks[at]) for at in chosen.tolist()]
        pools = self._find_pools_at(held.block)
        category = [
            number(_get_standing_category(place, int(pools[at])).replace(UNKNOWN, ""))
            for at, place in zip(chosen.tolist(), places, strict=True)
        ]
        return build_allocations(
            device=self._name,
            source=STATE,
            time_ns=np.zeros(len(chosen), np.int64),
            address=held.block[chosen],
            size=held.block_size[chosen],
            op=[number(place.op) for place in places],
            line=[number(place.line) for place in places],
            category=category,
            names=self._names.list_texts(),
            reserved=self._replay.reserved,
            failed=self._build_failed_request(self._replay.events, self._replay.events, self._replay.events),
        )

    def _build_failed_request(self, events: Ints, phase: Ints, step: Ints) -> FailedRequest | None:
        """The request that no memory was found for, if nothing was allocated after it."""
        history = self._history
        failures = np.flatnonzero(history.action == OOM)
        if not self._is_failed():
            return None
        last, free = int(failures[-1]), history.device_free[-1]
        place: StackOrigin = self._places[int(history.stack[last])]
        before = int(np.searchsorted(events, last)) - 1
        size = int(history.size[last])
        message = f"{self._name.partition(':')[0].upper()} out of memory: tried to allocate {format_bytes(size)}"
        near = place.phase if place.phase != NONE else int(phase[before]) if before >= 0 else NONE
        return FailedRequest(
            bytes=size,
            message=message if free is None else f"{message}; the device had {format_bytes(free)} free",
            phase=PHASES[near] if near != NONE else "",
            step=int(step[before]) if before >= 0 and step[before] != NONE else None,
            op=place.op,
            module=history.contexts[int(history.context[last])],
            line=place.line,
        )

    def describe_gaps(self) -> list[Note]:
        """Describe inconsistencies of the history."""
        replayed, history, name = self._replay, self._history, self._name
        notes = []
        if not len(history):
            notes.append(
                make_note("memory.no_history", f"{name}: no history recorded: only memory held at the end is known")
            )
        if replayed.lost:
            text = f"{name}: {replayed.lost} blocks were freed after the history ends"
            notes.append(make_note("memory.freed_later", text, blocks=replayed.lost))
        if replayed.later:
            text = f"{name}: {replayed.later} blocks were allocated after the history ends and are excluded"
            notes.append(make_note("memory.allocated_later", text, blocks=replayed.later))
        if replayed.missing:
            text = f"{name}: {format_bytes(replayed.missing)} of segments were released after the history ends"
            notes.append(make_note("memory.segments_returned_later", text, bytes=int(replayed.missing)))
        survived = int((history.action == OOM).sum()) - self._is_failed()
        if survived:
            text = f"{name}: {survived} requests failed, and the program continued"
            notes.append(make_note("memory.survived_failures", text, requests=survived))
        return notes

    def _is_failed(self) -> bool:
        failures = np.flatnonzero(self._history.action == OOM)
        return bool(len(failures)) and not (self._history.action[failures[-1] :] == ALLOC).any()


def _get_lasting_category(place: StackOrigin) -> str:
    """The category of a block that outlived its phase."""
    return BY_LIFE[place.purpose][1] if place.purpose in BY_LIFE else place.purpose or UNKNOWN


def _get_standing_category(place: StackOrigin, pool: int) -> str:
    """The category of a block that stood throughout, in a pool of this kind."""
    if pool == GRAPHS:
        return GRAPH_POOL
    category = _get_lasting_category(place)
    return MEMORY_POOL if pool == PROGRAMS and category == UNKNOWN else category
