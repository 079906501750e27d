"""Reads XLA's recordings (`plugins/profile/*/*.xplane.pb`), as the JSON beside them, and what that leaves out.

Times, names and threads are those that XLA's own converter writes as JSON (`xplane_to_trace_events.cc`). Beyond it a
file states the devices, the launch of each GPU kernel, the sizes of copies and the time at which it was recorded. It
has no shapes: an op is a kernel's HLO op.
"""

import re
from collections import Counter

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.trace.model import Trace
from perfkit.trace.readers.event_table.build_trace import build_trace
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS, NO_FLOWS, NO_MEMORY, NO_SYNCS, make_rows
from perfkit.trace.readers.event_table.piece_columns import Columns, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.event_table.trace_collector import TraceCollector
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata
from perfkit.trace.readers.protobuf.wire import BYTES, WireBuffer, find_messages, make_buffer, make_tag, read_field
from perfkit.trace.readers.xplane.lines import LineReader
from perfkit.trace.readers.xplane.planes import Plane, read_plane
from perfkit.trace.trace_text import TraceText

_PLANES, _PLANE_NUMBER, _PLANE_NAME = 1, 1, 2
_KNOWN_NAME = re.compile(rb"/(host|device|virtualdevice):|#Chip|Task Environment|Host CPUs|Syscalls")
_HOST, _ENVIRONMENT = "/host:", "Task Environment"
_DEVICE = re.compile(r"/device:\w+:(\d{1,4})$")
# Processes as XLA's JSON numbers them: the host's, and of devices their plane's number more than the first.
_HOST_PROCESS, _FIRST_DEVICE = "701", 1
_BEGAN = "profile_start_time"
# Statements of a device by the member that torch's JSON has for them.
_SIZES = {
    "core_count": "numSms", "memory_size": "totalGlobalMem", "compute_cap_major": "computeMajor",
    "compute_cap_minor": "computeMinor",
}  # fmt: skip
_DEVICE_NAMES = ("gpu_device_name", "device_type_string")
# Times of lines above are counted since 1970, those below since the recording began.
_SINCE_1970_NS = 10**17


def is_xplane(head: bytes) -> bool:
    """True if a file begins with a plane of an XSpace, by its name."""
    if head[:1] != bytes((make_tag(_PLANES, BYTES),)):
        return False
    at = _find_last_of_length(head) + 1  # the plane itself may end behind `head`
    while (field := read_field(head, at, len(head))) is not None and field.number <= _PLANE_NAME:
        if field.number == _PLANE_NAME:
            return _KNOWN_NAME.match(head[field.start : field.end]) is not None
        at = field.end
    return False


def _find_last_of_length(head: bytes) -> int:
    """The position of the last byte of the first field's length."""
    return next((at for at in range(1, len(head)) if head[at] < 128), len(head))


def read_xplane(text: TraceText) -> Trace:
    """Read the planes of an XSpace, whole or cut off; those after a cut are missing."""
    buffer = make_buffer(*text.blocks)
    starts, ends, _, behind = find_messages(buffer, _PLANES, 0, buffer.size)
    if not starts:
        raise RunFormatError(
            f"{text.source}: the file ends inside its first plane, before the names of its events: record it again"
        )
    planes = [read_plane(buffer, start, end) for start, end in zip(starts, ends, strict=True)]
    reader = _PlaneReader(buffer, TraceCollector(TraceTables(text.limits.names), text.allocations))
    for plane in planes:
        reader.read_plane(plane)
    cut_at = None if behind == buffer.size else behind
    return build_trace(text, reader.collection, reader.read_metadata(planes), reader.notes, cut_at)


class _PlaneReader:
    """The state of reading the planes of one file."""

    def __init__(self, buffer: WireBuffer, collection: TraceCollector) -> None:
        self.collection, self.notes = collection, Counter[str]()
        self._lines = LineReader(buffer, collection.tables)
        self._processes: set[str] = set()
        self._first_ns: int | None = None
        self._add(make_rows(0))

    def read_plane(self, plane: Plane) -> None:
        """Read the events of the host or of a device; other planes are of the machine."""
        self.notes["broken event"] += not plane.is_whole
        if not plane.lines or not plane.name.startswith((_HOST, "/device:")):
            return
        process = self._assign_process(plane)
        read = self._lines.read_lines(plane, process)
        for rows, counters in read.parts:
            self._add(rows, counters)
        self.notes["broken event"] += read.broken
        if read.first_ns is not None:
            self._first_ns = read.first_ns if self._first_ns is None else min(self._first_ns, read.first_ns)
        tables = self.collection.tables
        for number, name in read.names.items():
            thread = tables.thread[process, number]
            shown = "/host:CPU" if process == _HOST_PROCESS else plane.name
            self.collection.metadata.append((thread, "process_name", msgspec.json.encode(shown)))
            self.collection.metadata.append((thread, "thread_name", msgspec.json.encode(name)))

    def read_metadata(self, planes: list[Plane]) -> TraceMetadata:
        """The devices, and the time at which the recording began."""
        devices, sizes = {}, {name: set[int]() for name in _SIZES.values()}
        base_ns = 0
        for plane in planes:
            match = _DEVICE.match(plane.name)
            name = next((plane.statements[each] for each in _DEVICE_NAMES if each in plane.statements), None)
            if match is not None and isinstance(name, str):
                devices[int(match[1])] = name
            for stated, member in _SIZES.items():
                value = plane.statements.get(stated)
                if match is not None and isinstance(value, int):
                    sizes[member].add(value)
            began = plane.statements.get(_BEGAN)
            if plane.name == _ENVIRONMENT and isinstance(began, int) and (self._first_ns or 0) < _SINCE_1970_NS:
                base_ns = max(0, began)
        properties = {member: str(values.pop()) for member, values in sizes.items() if len(values) == 1}
        return TraceMetadata(base_ns=base_ns, devices=devices, properties=properties)

    def _assign_process(self, plane: Plane) -> str:
        """The process of a plane; planes of the host, of which each has the lines of some threads, share one."""
        if plane.name.startswith(_HOST):
            return _HOST_PROCESS
        number = _FIRST_DEVICE + plane.number
        while str(number) in self._processes or str(number) == _HOST_PROCESS:
            number += 1
        self._processes.add(str(number))
        return str(number)

    def _add(self, rows: Columns, counters: Columns = NO_COUNTERS) -> None:
        fresh = self.collection.tables.take_fresh()
        self.collection.add(PieceColumns(rows, NO_FLOWS, NO_MEMORY, NO_SYNCS, counters, [], fresh, Counter()))
