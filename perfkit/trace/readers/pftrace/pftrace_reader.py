"""Reads Perfetto's binary traces (`.pftrace`), as torch's profiler writes them from 2.14 on.

Fields of protos/perfetto/trace/trace_packet.proto. torch writes no memory events, no properties of devices and of the
job, no arrows from forward to backward ops; see `render_stages` for what kernels lack.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from perfkit.core.errors import RunFormatError
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.readers.event_table.build_trace import build_trace
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS, NO_FLOWS, NO_MEMORY, NO_SYNCS, make_rows
from perfkit.trace.readers.event_table.piece_columns import Columns, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.trace_collector import TraceCollector
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata
from perfkit.trace.readers.pftrace.clocks import BOOT_CLOCK, Clocks
from perfkit.trace.readers.pftrace.counters import CounterPackets, read_gpu_counters
from perfkit.trace.readers.pftrace.interned import InternedTables, SequenceStates
from perfkit.trace.readers.pftrace.pair_slices import pair_slices
from perfkit.trace.readers.pftrace.render_stages import RenderStageReader
from perfkit.trace.readers.pftrace.track_events import TrackEventReader
from perfkit.trace.readers.pftrace.tracks import Tracks
from perfkit.trace.readers.protobuf.columns import place_values
from perfkit.trace.readers.protobuf.message_chains import find_all_messages
from perfkit.trace.readers.protobuf.wire import (
    WireBuffer,
    WireFields,
    find_messages,
    make_buffer,
    split_message,
    split_messages,
)
from perfkit.trace.trace_text import TraceText

_CLOCK_SNAPSHOT, _TIME, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS = 6, 8, 10, 11, 12, 13
_CLEARED, _COMPRESSED, _GPU_COUNTERS, _RENDER_STAGE, _CLOCK, _DEFAULTS, _TRACK = 41, 50, 52, 53, 58, 59, 60
_CLEARS = 1  # of the flags
_DEFAULT_TRACK = (11, 11)  # of the defaults: of track events their track
_PACKET = 1  # field of a trace
_PACKETS_AT_ONCE = 1 << 16
_LARGEST_BATCH = 1 << 28  # bytes that a compressed batch of packets may become

# A category that only torch's profiler writes.
_TORCH = "cpu_op"
_ARCHITECTURE = re.compile(r"sm_(\d+)(\d)")


def is_pftrace(head: bytes) -> bool:
    """True if a file begins with packets of a trace in Perfetto's binary format."""
    buffer = make_buffer(head)
    starts, ends, _, _ = find_messages(buffer, _PACKET, 0, buffer.size, most=8)
    if not starts or head[:1] != b"\n":
        return False
    _, damaged = split_messages(buffer, np.asarray(starts, np.int64), np.asarray(ends, np.int64))
    return not len(damaged) and any(ends[each] > starts[each] for each in range(len(starts)))


def read_pftrace(text: TraceText) -> Trace:
    """Read a trace in Perfetto's binary format, whole or cut off."""
    buffer = make_buffer(*text.blocks)
    reader = _PacketReader(TraceCollector(TraceTables(text.limits.names), text.allocations))
    at = reader.read_packets(buffer)
    if not reader.found:
        raise RunFormatError(f"{text.source}: a trace of Perfetto without slices of tracks or work of a GPU")
    metadata = TraceMetadata(base_ns=reader.base_ns, properties=reader.describe_device())
    cut_at = None if at == buffer.size else at
    return build_trace(text, reader.finish(), metadata, reader.notes, cut_at, pair_slices)


class _PacketColumns(NamedTuple):
    """Of each packet its time, sequence, the state of that, and its default track."""

    time_ns: Ints
    sequence: Ints
    state: Ints
    track: Ints


class _PacketReader:
    """The state of reading the packets of one trace."""

    def __init__(self, collection: TraceCollector) -> None:
        self.notes: Counter[str] = Counter()
        self.found = False
        self._collection = collection
        self._tracks, self._interned, self._clocks = Tracks(), InternedTables(), Clocks()
        self._states = SequenceStates()
        self._defaults: dict[int, tuple[int, int]] = {}  # clock and track by sequence
        self._slices = TrackEventReader(collection.tables, self._interned, self._tracks)
        self._work = RenderStageReader(collection.tables, self._interned)
        self._first_ns, self._last_ns = np.iinfo(np.int64).max, np.iinfo(np.int64).min

    @property
    def base_ns(self) -> int:
        return max(0, self._clocks.base_ns or 0)

    def describe_device(self) -> dict[str, str]:
        """The compute capability of the device (`sm_90`), in the members that torch's JSON has for it."""
        found = _ARCHITECTURE.fullmatch(self._work.statements.get("arch", ""))
        return {} if found is None else {"computeMajor": found[1], "computeMinor": found[2]}

    def read_packets(self, buffer: WireBuffer) -> int:
        """Read packets up to the end or the first that is damaged; returns the position after the last."""
        starts, ends, behind = find_all_messages(buffer, _PACKET)
        for first in range(0, len(starts), _PACKETS_AT_ONCE):
            part = slice(first, first + _PACKETS_AT_ONCE)
            self._read_part(buffer, starts[part], ends[part])
        return behind

    def finish(self) -> TraceCollector:
        """What was collected, with the names of processes and threads."""
        tables = self._collection.tables
        if _TORCH in tables.cat:
            self._add_profiler_span()
        self._collection.metadata += self._tracks.state_names(tables)
        for thread, name in self._work.lanes.items():
            process = list(tables.thread)[thread][0]
            self._collection.metadata.append((thread, "process_labels", f'"GPU {process}"'.encode()))
            self._collection.metadata.append((thread, "thread_name", f'"{name}"'.encode()))
        return self._collection

    def _add_profiler_span(self) -> None:
        """Add the span of the recording, which torch writes into JSON but not into this format."""
        tables = self._collection.tables
        columns = make_rows(1) | {
            "cat": np.full(1, tables.cat["Trace"], np.int32),
            "name": np.full(1, tables.name["PyTorch Profiler (0)"], np.int32),
            "thread": np.full(1, tables.thread["Spans", "PyTorch Profiler"], np.int32),
            "start_ns": np.full(1, self._first_ns, np.int64),
            "duration": np.full(1, self._last_ns - self._first_ns, np.int64),
        }
        self._add(columns)

    def _add(self, rows: Columns, syncs: Columns = NO_SYNCS, counters: Columns = NO_COUNTERS) -> None:
        fresh = self._collection.tables.take_fresh()
        self._collection.add(PieceColumns(rows, NO_FLOWS, NO_MEMORY, syncs, counters, [], fresh, Counter()))

    def _read_part(self, buffer: WireBuffer, starts: Ints, ends: Ints) -> None:
        fields, damaged = split_messages(buffer, starts, ends)
        self.notes["broken event"] += len(damaged)
        for raw in self._list_bytes(buffer, fields.select_bytes(_COMPRESSED)):
            self._read_compressed(raw)
        count = len(starts)
        time, sequence = np.full(count, NONE, np.int64), np.zeros(count, np.int64)
        clock, flags = np.full(count, NONE, np.int64), np.zeros(count, np.int64)
        for number, column in ((_TIME, time), (_SEQUENCE, sequence), (_CLOCK, clock), (_FLAGS, flags)):
            place_values(column, fields.select_numbers(number))
        cleared = np.flatnonzero(flags & _CLEARS)
        cleared = np.union1d(cleared, fields.select_numbers(_CLEARED).owner)
        state = self._states.assign(sequence, cleared)
        snapshots = fields.select_bytes(_CLOCK_SNAPSHOT)
        for owner, raw in zip(snapshots.owner.tolist(), self._list_bytes(buffer, snapshots), strict=True):
            self._clocks.add(raw, int(sequence[owner]))
        track = np.zeros(count, np.int64)
        self._apply_defaults(buffer, fields.select_bytes(_DEFAULTS), sequence, clock, track)
        for raw in self._list_bytes(buffer, fields.select_bytes(_TRACK)):
            self._tracks.add(raw)
        interned = fields.select_bytes(_INTERNED)
        entries, _ = split_messages(buffer, interned.start, interned.end)
        self._interned.add(buffer, entries, state[interned.owner])
        timed = np.flatnonzero(time != NONE)
        time[timed] = self._clocks.convert(time[timed], clock[timed], sequence[timed]) - self.base_ns
        self._read_work(buffer, fields, _PacketColumns(time, sequence, state, track))

    def _read_work(self, buffer: WireBuffer, fields: WireFields, context: _PacketColumns) -> None:
        time, sequence, state, track = context
        events = fields.select_bytes(_TRACK_EVENT)
        rows, syncs, counters, damaged = self._slices.read(
            buffer, events, time[events.owner], state[events.owner], track[events.owner]
        )
        stages = fields.select_bytes(_RENDER_STAGE)
        device_rows, broken = self._work.read(buffer, stages, time[stages.owner], state[stages.owner])
        self.notes["broken event"] += damaged + broken
        self.found = self.found or bool(len(rows["kind"]) + len(device_rows["kind"]))
        for columns in (rows, device_rows):
            if len(columns["kind"]):
                self._first_ns = min(self._first_ns, int(columns["start_ns"].min()))
                self._last_ns = max(self._last_ns, int((columns["start_ns"] + columns["duration"]).max()))
        self._add(rows, syncs, counters)
        sampled = fields.select_bytes(_GPU_COUNTERS)
        packets = CounterPackets(sampled, *(column[sampled.owner] for column in (time, sequence, state)))
        self._add(
            device_rows,
            counters=read_gpu_counters(buffer, packets, self._collection.tables, self._interned.counters),
        )

    def _apply_defaults(
        self, buffer: WireBuffer, defaults: WireFields, sequence: Ints, clock: Ints, track: Ints
    ) -> None:
        """Fill in the clocks and tracks of packets that state none: of their sequence, from its defaults on."""
        known = {each: self._defaults.get(each, (BOOT_CLOCK, 0)) for each in np.unique(sequence).tolist()}
        stated = clock != NONE
        for each, (number, default) in known.items():
            its = sequence == each
            clock[its & ~stated], track[its] = number, default
        for owner, raw in zip(defaults.owner.tolist(), self._list_bytes(buffer, defaults), strict=True):
            each = int(sequence[owner])
            number, default = self._read_defaults(raw, known[each])
            known[each] = number, default
            later = sequence[owner:] == each
            clock[owner:][later & ~stated[owner:]], track[owner:][later] = number, default
        self._defaults |= known

    def _read_defaults(self, raw: bytes, before: tuple[int, int]) -> tuple[int, int]:
        clock, track = before
        outer, inner = _DEFAULT_TRACK
        try:
            for number, _, value in split_message(raw):
                if number == _CLOCK and isinstance(value, int):
                    clock = value
                elif number == outer and isinstance(value, bytes):
                    track = next((int(part) for key, _, part in split_message(value) if key == inner), track)
        except ValueError:
            self.notes["broken event"] += 1
        return clock, track

    def _read_compressed(self, raw: bytes) -> None:
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(raw, _LARGEST_BATCH)
        except zlib.error:
            self.notes["broken event"] += 1
            return
        self.read_packets(make_buffer(data))

    def _list_bytes(self, buffer: WireBuffer, fields: WireFields) -> Iterator[bytes]:
        for start, end in zip(fields.start.tolist(), fields.end.tolist(), strict=True):
            yield buffer.data[start:end]
