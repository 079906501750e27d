"""Lines of a plane as rows: threads of the host, streams and summaries of a device, samples of counters."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, EventStatement, Ints
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS, make_rows
from perfkit.trace.readers.event_table.graph_nodes import combine_graph_node
from perfkit.trace.readers.event_table.growing_columns import select_rows
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.xla_details import format_geometry, is_tensorflow_op, parse_moved_bytes
from perfkit.trace.readers.protobuf.columns import map_distinct, map_pairs, place_values
from perfkit.trace.readers.protobuf.wire import BYTES, VARINT, WireBuffer, find_messages, split_messages
from perfkit.trace.readers.xplane.event_stats import EventStats
from perfkit.trace.readers.xplane.planes import EventKind, Plane

# Fields of XLine and of XEvent.
_NUMBER, _NAME, _BEGAN_NS, _EVENTS, _SHOWN_NUMBER, _SHOWN_NAME = 1, 2, 3, 4, 10, 11
_KIND, _OFFSET_PS, _DURATION_PS, _STATS, _OCCURRENCES = 1, 2, 3, 4, 5
_EVENTS_AT_ONCE = 1 << 15
_32_BITS = 0xFFFFFFFF
_COUNTERS = "_counters_"
# Begins and ends of copies beside each other on one line, which the line of ops shows, too.
_OVERLAPPING = "Async XLA Ops"
# Events that XLA's converter leaves out: they mark points of its allocators and of tf.data's queues.
_INTERNAL = frozenset(
    {
        "MemoryAllocation", "MemoryDeallocation", "PrefetchProduce", "PrefetchConsume", "ParallelInterleaveProduce",
        "ParallelInterleaveConsume", "ParallelInterleaveInitializeInput", "ParallelMapProduce", "ParallelMapConsume",
        "MapAndBatchProduce", "MapAndBatchConsume", "ParseExampleProduce", "ParseExampleConsume",
    }
)  # fmt: skip


@dataclass
class PlaneRows:
    """What the lines of a plane hold.

    Attributes:
        parts: rows and samples of counters.
        names: of each thread.
        first_ns: the time of the first line, None without lines.
        broken: how many events are damaged.
    """

    parts: list[tuple[Columns, Columns]] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    first_ns: int | None = None
    broken: int = 0


@dataclass(frozen=True)
class _Line:
    """A line's name, number and time, and where its events are."""

    name: str
    number: str
    began_ns: int
    starts: list[int]
    ends: list[int]


class LineReader:
    """Reads lines of the planes of one file into columns."""

    def __init__(self, buffer: WireBuffer, tables: TraceTables) -> None:
        self._buffer, self._tables = buffer, tables

    def read_lines(self, plane: Plane, process: str) -> PlaneRows:
        """Read all lines of a plane."""
        read = PlaneRows()
        for start, end in plane.lines:
            line = self._read_line(start, end)
            if line.name == _OVERLAPPING:
                continue
            read.first_ns = line.began_ns if read.first_ns is None else min(read.first_ns, line.began_ns)
            thread = self._tables.thread[process, line.number]
            if line.name != _COUNTERS:
                read.names.setdefault(line.number, line.name)
            for events in _list_parts(line):
                rows, counters, broken = self._read_events(plane, line, events)
                rows["thread"][:] = thread
                counters = (
                    counters
                    if counters is NO_COUNTERS
                    else counters | {"thread": np.full(len(counters["name"]), thread, np.int32)}
                )
                read.parts.append((rows, counters))
                read.broken += broken
        return read

    def _read_line(self, start: int, end: int) -> _Line:
        starts, ends, others, _ = find_messages(self._buffer, _EVENTS, start, end)
        numbers = {place.number: place.value for place in others if place.wire == VARINT}
        texts = {
            place.number: self._buffer.data[place.start : place.end].decode("utf-8", "replace")
            for place in others
            if place.wire == BYTES
        }
        return _Line(
            escape_control_chars(texts.get(_SHOWN_NAME) or texts.get(_NAME, "")),
            str((numbers.get(_SHOWN_NUMBER) or numbers.get(_NUMBER, 0)) & _32_BITS),
            numbers.get(_BEGAN_NS, 0),
            starts,
            ends,
        )

    def _read_events(self, plane: Plane, line: _Line, span: slice) -> tuple[Columns, Columns, int]:
        starts, ends = (np.asarray(column[span], np.int64) for column in (line.starts, line.ends))
        fields, damaged = split_messages(self._buffer, starts, ends)
        number = {each: np.zeros(len(starts), np.int64) for each in (_KIND, _OFFSET_PS, _DURATION_PS, _OCCURRENCES)}
        for each, column in number.items():
            place_values(column, fields.select_numbers(each))
        stats = EventStats(self._buffer, plane, fields.select_bytes(_STATS), number[_KIND])
        time_ns = line.began_ns + _to_ns(number[_OFFSET_PS])
        names = map_distinct(number[_KIND], lambda kind: self._tables.name[_find_kind(plane, kind).name])
        if line.name == _COUNTERS:
            rows, values = stats.read_values()
            return make_rows(0), {"name": names[rows].astype(np.int32), "time_ns": time_ns[rows], "value": values}, 0
        columns = self._build_rows(plane, number, names, time_ns, stats)
        internal = map_distinct(number[_KIND], lambda kind: int(_find_kind(plane, kind).name in _INTERNAL))
        keep = (internal == 0) & (number[_OCCURRENCES] == 0)  # sums over several events have no time
        keep[damaged] = False
        if not keep.all():
            select_rows(columns, keep)
        return columns, NO_COUNTERS, len(damaged)

    def _build_rows(
        self, plane: Plane, number: dict[int, Ints], names: Ints, time_ns: Ints, stats: EventStats
    ) -> Columns:
        tables = self._tables
        ops = map_distinct(number[_KIND], lambda kind: int(_is_op(_find_kind(plane, kind))))
        renamed = stats.read_texts("step_name", tables.name.__getitem__)
        sizes = [stats.read_texts(name, parse_moved_bytes) for name in ("memcpy_details", "Memset_details")]
        return make_rows(len(time_ns)) | {
            "cat": np.full(len(time_ns), tables.cat[""], np.int32),
            "name": np.where(renamed != NONE, renamed, names).astype(np.int32),
            "start_ns": time_ns,
            "duration": _to_ns(number[_DURATION_PS]),
            "correlation": stats.read_numbers("correlation_id"),
            "hlo": stats.are_stated("hlo_op") | (ops > 0),
            "numbered": stats.are_stated("step_num"),
            "geometry": stats.read_texts("kernel_details", self._number_geometry).astype(np.int32),
            "moved_bytes": np.maximum(*sizes),
            "node": combine_graph_node(stats.read_numbers("cuda_graph_node_id"), stats.read_numbers("cuda_graph_id")),
            "stated": self._read_costs(stats).astype(np.int32),
        }

    def _number_geometry(self, details: str) -> int:
        geometry = format_geometry(details)
        return self._tables.geometry[geometry] if geometry else NONE

    def _read_costs(self, stats: EventStats) -> Ints:
        """FLOPs and bytes as XLA's compiler counted them, where both are stated."""
        accessed = parse_numbers.mask_implausible_sizes(stats.read_numbers("bytes_accessed"))
        model, all_flops = stats.read_numbers("model_flops"), stats.read_numbers("flops")
        flops = np.where(model != NONE, model, all_flops)
        stated = np.full(len(accessed), NONE, np.int64)
        which = np.flatnonzero(accessed != NONE)
        stated[which] = map_pairs(
            flops[which], accessed[which], lambda flops, size: self._tables.stated[EventStatement(flops, size, NONE)]
        )
        return stated


def _list_parts(line: _Line) -> Iterator[slice]:
    for first in range(0, len(line.starts), _EVENTS_AT_ONCE):
        yield slice(first, first + _EVENTS_AT_ONCE)


def _find_kind(plane: Plane, number: int) -> EventKind:
    return plane.kinds.get(number, EventKind())


def _is_op(kind: EventKind) -> bool:
    return is_tensorflow_op(kind.name, kind.long_name)


def _to_ns(picoseconds: Ints) -> Ints:
    return (picoseconds + 500) // 1000
