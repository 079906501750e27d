"""Reads Nsight Systems' exports to SQLite.

Kernels and copies, calls of CUDA, waits and NVTX ranges have the columns that a trace of torch's profiler has. No
types of inputs, no modules and no allocations are recorded; ops and their sizes only under
`torch.autograd.profiler.emit_nvtx(record_shapes=True)`.
"""

import re
import sqlite3
from collections import Counter
from collections.abc import Hashable, Iterable
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.core.errors import RunFormatError
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, SYNC_KINDS, Ints, Trace
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.build_trace import build_trace
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS, NO_FLOWS, NO_MEMORY, NO_SYNCS, make_rows
from perfkit.trace.readers.event_table.graph_nodes import combine_graph_node
from perfkit.trace.readers.event_table.nvtx_ranges import NvtxRange, parse_range
from perfkit.trace.readers.event_table.piece_columns import UNKNOWN_DURATION, Columns, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables, ValueTable
from perfkit.trace.readers.event_table.trace_collector import TraceCollector
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata
from perfkit.trace.readers.nsys.database import MAGIC, list_columns, open_database, read_numbers, read_texts
from perfkit.trace.trace_text import TraceText

_WHERE = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "graphId", "graphNodeId")
_LAUNCH = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
_SHARED = ("staticSharedMemory", "dynamicSharedMemory", "registersPerThread")
_KERNELS, _COPIES, _FILLS = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET"))
_GRAPHS, _CALLS, _WAITS = (f"CUPTI_ACTIVITY_KIND_{name}" for name in ("GRAPH_TRACE", "RUNTIME", "SYNCHRONIZATION"))
_WORK = {_KERNELS: "kernel", _COPIES: "gpu_memcpy", _FILLS: "gpu_memset", _GRAPHS: "kernel"}
_RANGES, _STRINGS, _THREADS, _GPUS = "NVTX_EVENTS", "StringIds", "ThreadNames", "TARGET_INFO_GPU"
_NESTED, _STARTED = 59, 60  # of NVTX's events: pushed and popped, started and ended
# CUpti_ActivityMemcpyKind and CUpti_ActivitySynchronizationType.
_DIRECTIONS = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
}  # fmt: skip
_SYNC_TYPES = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
# Sizes of a device by the member that torch's JSON has for them.
_SIZES = {
    "smCount": "numSms", "totalMemory": "totalGlobalMem", "computeMajor": "computeMajor",
    "computeMinor": "computeMinor",
}  # fmt: skip
_NO_STREAM = 0xFFFFFFFF
_DRIVER_CALL = re.compile(r"cu[A-Z]")  # the runtime's calls begin with `cuda`
_VERSION = re.compile(r"_v\d+$|_ptsz$|_ptds$")
_NODE_BITS, _LOW_BYTE = 32, 0xFF


def is_nsys_export(head: bytes) -> bool:
    """True if a file is an SQLite database of Nsight Systems: its first page names the tables."""
    return head.startswith(MAGIC) and any(table.encode() in head for table in (_STRINGS, _KERNELS, _CALLS, _RANGES))


def read_nsys(text: TraceText) -> Trace:
    """Read an export of Nsight Systems to SQLite."""
    data = b"".join(text.blocks)
    with open_database(data, str(text.source)) as database:
        if not any(list_columns(database, table) for table in (_KERNELS, _CALLS, _RANGES)):
            raise RunFormatError(
                f"{text.source}: an SQLite database without CUDA or NVTX events of Nsight Systems: "
                "record with `nsys profile --trace cuda,nvtx`, export with `nsys export --type sqlite`"
            )
        reader = _ExportReader(database, TraceTables(text.limits.names), text.allocations)
        return build_trace(text, reader.read_events(), reader.read_metadata(), reader.notes)


class _ExportReader:
    """Reads the tables of one export."""

    def __init__(self, database: sqlite3.Connection, tables: TraceTables, allocations: bool) -> None:
        self.notes: Counter[str] = Counter()
        self._database, self._tables = database, tables
        self._collection = TraceCollector(tables, allocations)
        self._strings = read_texts(database, _STRINGS, "id", "value")
        self._processes: dict[int, int] = {}

    def read_metadata(self) -> TraceMetadata:
        """The devices, and the time of the recording's beginning."""
        known = list_columns(self._database, _GPUS)
        names = read_texts(self._database, _GPUS, "cuDevice" if "cuDevice" in known else "id", "name")
        sizes = read_numbers(self._database, _GPUS, tuple(_SIZES))
        properties = {}
        for column, stated in _SIZES.items():
            values = {int(value) for value in sizes[column].tolist() if value >= 0}
            if len(values) == 1:
                properties[stated] = str(values.pop())
        began = read_numbers(self._database, "TARGET_INFO_SESSION_START_TIME", ("utcEpochNs",))["utcEpochNs"]
        base_ns = int(began[0]) if len(began) and began[0] > 0 else 0
        devices = {number: escape_control_chars(name) for number, name in names.items() if number >= 0}
        return TraceMetadata(base_ns=base_ns, devices=devices, properties=properties)

    def read_events(self) -> TraceCollector:
        """All events that are rows of a trace."""
        for table, category in _WORK.items():
            self._read_work(table, category)
        self._read_calls()
        self._read_waits()
        self._read_ranges()
        self._read_counters()
        self._name_threads()
        return self._collection

    def _read_work(self, table: str, category: str) -> None:
        extra = (*_LAUNCH, *_SHARED, "demangledName", "shortName") if table == _KERNELS else ("bytes", "copyKind")
        columns = read_numbers(self._database, table, (*_WHERE, *extra))
        count = len(columns["start"])
        if table == _GRAPHS:
            self.notes["graphs"] += count
        rows = self._make_rows(columns, category, self._name_work(table, columns))
        device, stream = columns["deviceId"], columns["streamId"]
        lanes = list(zip(map(str, device.tolist()), map(str, stream.tolist()), strict=True))
        rows["thread"] = _number(lanes, self._tables.thread)
        rows["device"], rows["stream"] = device, stream
        rows["correlation"] = self._correlate(columns)
        rows["node"] = combine_graph_node(columns["graphNodeId"], columns["graphId"])
        if table == _KERNELS:
            rows["geometry"] = self._read_geometries(columns)
        else:
            rows["moved_bytes"] = parse_numbers.mask_implausible_sizes(columns["bytes"])
        self._add(rows)
        for lane in dict.fromkeys(lanes):
            self._state(self._tables.thread[lane], "process_labels", f"GPU {lane[0]}")
            self._state(self._tables.thread[lane], "thread_name", f"stream {lane[1]}")

    def _name_work(self, table: str, columns: dict[str, Ints]) -> list[str]:
        if table == _KERNELS:
            full = np.where(columns["demangledName"] != NONE, columns["demangledName"], columns["shortName"])
            return [self._strings.get(number, "") for number in full.tolist()]
        if table == _COPIES:
            return [f"Memcpy {_DIRECTIONS.get(kind, '')}".strip() for kind in columns["copyKind"].tolist()]
        if table == _GRAPHS:
            return [
                f"CUDA graph {number}" if number != NONE else "CUDA graph" for number in columns["graphId"].tolist()
            ]
        return ["Memset"] * len(columns["start"])

    def _read_calls(self) -> None:
        columns = read_numbers(self._database, _CALLS, ("start", "end", "globalTid", "correlationId", "nameId"))
        names = {number: _VERSION.sub("", text) for number, text in self._strings.items()}
        texts = [names.get(number, "") for number in columns["nameId"].tolist()]
        rows = self._make_rows(columns, "", texts)
        driver, runtime = self._tables.cat["cuda_driver"], self._tables.cat["cuda_runtime"]
        is_driver = [_DRIVER_CALL.match(text) is not None for text in texts]
        rows["cat"] = np.where(np.asarray(is_driver, np.bool_), driver, runtime).astype(np.int32)
        rows["thread"] = self._find_threads(columns["globalTid"])
        columns["globalPid"] = columns["globalTid"]
        rows["correlation"] = self._correlate(columns)
        self._add(rows)

    def _read_waits(self) -> None:
        columns = read_numbers(
            self._database, _WAITS, ("start", "deviceId", "streamId", "correlationId", "globalPid", "syncType")
        )
        kinds = {number: SYNC_KINDS.index(name) for number, name in _SYNC_TYPES.items()}
        known = np.isin(columns["syncType"], list(kinds))
        columns = {name: column[known] for name, column in columns.items()}
        stream = np.where(columns["streamId"] == _NO_STREAM, NONE, columns["streamId"])
        missing = np.full(len(stream), NONE, np.int64)
        syncs: Columns = {
            "kind": np.asarray([kinds[number] for number in columns["syncType"].tolist()], np.int8),
            "time_ns": columns["start"],
            "call": self._correlate(columns),
            "device": columns["deviceId"],
            "stream": stream,
            "source": missing,
            "record": missing,
        }
        self._add(make_rows(0), syncs)

    def _read_ranges(self) -> None:
        names = ("start", "end", "eventType", "globalTid", "textId")
        columns = read_numbers(self._database, _RANGES, names)
        texts = self._read_range_texts(columns["textId"])
        chosen = np.flatnonzero(np.isin(columns["eventType"], (_NESTED, _STARTED)) & (columns["start"] != NONE))
        columns = {name: column[chosen] for name, column in columns.items()}
        parse = cache(parse_range)
        ranges: list[NvtxRange] = [parse(texts[index]) for index in chosen.tolist()]
        rows = self._make_rows(columns, "", [each.name for each in ranges])
        open_ones = columns["end"] == NONE
        if open_ones.any():
            rows["duration"][open_ones] = UNKNOWN_DURATION
        rows["cat"] = _number((each.category for each in ranges), self._tables.cat)
        rows["thread"] = self._find_threads(columns["globalTid"])
        rows["sequence"] = np.asarray([each.sequence for each in ranges], np.int64)
        signed = [index for index, each in enumerate(ranges) if each.types]
        keys = (b"\0".join((ranges[index].dims, b"", ranges[index].types, b"")) for index in signed)
        rows["signature"][signed] = [self._tables.signature[key] for key in keys]
        self._add(rows)

    def _read_range_texts(self, text_ids: Ints) -> list[str]:
        """Ranges have a text of their own or one that is registered."""
        if "text" not in list_columns(self._database, _RANGES):
            return [self._strings.get(number, "") for number in text_ids.tolist()]
        own = self._database.execute(f'SELECT text FROM "{_RANGES}"').fetchall()
        return [
            str(text) if text is not None else self._strings.get(number, "")
            for (text,), number in zip(own, text_ids.tolist(), strict=True)
        ]

    def _read_counters(self) -> None:
        """Samples of `--gpu-metrics-devices`, whose type's low byte is the GPU."""
        names = read_texts(self._database, "TARGET_INFO_GPU_METRICS", "metricId", "metricName")
        columns = read_numbers(self._database, "GPU_METRICS", ("timestamp", "typeId", "metricId", "value"))
        devices = [(f"GPU {number & _LOW_BYTE} Counters", "") for number in columns["typeId"].tolist()]
        labels = [names.get(number, f"metric {number}") for number in columns["metricId"].tolist()]
        counters: Columns = {
            "name": _number(labels, self._tables.name),
            "thread": _number(devices, self._tables.thread),
            "time_ns": columns["timestamp"],
            "value": columns["value"].astype(np.float64),
        }
        self._add(make_rows(0), counters=counters)

    def _name_threads(self) -> None:
        known = read_numbers(self._database, _THREADS, ("globalTid", "nameId"))
        for number, name in zip(known["globalTid"].tolist(), known["nameId"].tolist(), strict=True):
            key = _split_thread(number)
            if key in self._tables.thread and name in self._strings:
                self._state(self._tables.thread[key], "thread_name", self._strings[name])

    def _read_geometries(self, columns: dict[str, Ints]) -> NDArray[np.int32]:
        static, dynamic, registers = (columns[name].tolist() for name in _SHARED)
        launch = zip(*(columns[name].tolist() for name in _LAUNCH), strict=True)
        keys = []
        for axes, fixed, asked, each in zip(launch, static, dynamic, registers, strict=True):
            grid, block = list(axes[:3]), list(axes[3:])
            shared = b"" if NONE in (fixed, asked) else str(fixed + asked).encode()
            count = b"" if each == NONE else str(each).encode()
            keys.append(b"\0".join((msgspec.json.encode(grid), msgspec.json.encode(block), shared, count, b"", b"")))
        return _number(keys, self._tables.geometry)

    def _correlate(self, columns: dict[str, Ints]) -> Ints:
        """Correlation ids, which each process numbers by itself."""
        process = (columns["globalPid"] >> 24).tolist()
        number = np.asarray([self._processes.setdefault(each, len(self._processes)) for each in process], np.int64)
        return np.where(columns["correlationId"] > 0, columns["correlationId"] + (number << _NODE_BITS), NONE)

    def _find_threads(self, global_tid: Ints) -> NDArray[np.int32]:
        return _number(map(_split_thread, global_tid.tolist()), self._tables.thread)

    def _make_rows(self, columns: dict[str, Ints], category: str, names: list[str]) -> Columns:
        count = len(columns["start"])
        return make_rows(count) | {
            "cat": np.full(count, self._tables.cat[category], np.int32),
            "name": _number(names, self._tables.name),
            "start_ns": columns["start"],
            "duration": columns["end"] - columns["start"],
        }

    def _state(self, thread: int, kind: str, text: str) -> None:
        self._collection.metadata.append((thread, kind, msgspec.json.encode(escape_control_chars(text))))

    def _add(self, rows: Columns, syncs: Columns = NO_SYNCS, counters: Columns = NO_COUNTERS) -> None:
        fresh = self._tables.take_fresh()
        self._collection.add(PieceColumns(rows, NO_FLOWS, NO_MEMORY, syncs, counters, [], fresh, Counter()))


def _number(values: Iterable[Hashable], table: ValueTable) -> NDArray[np.int32]:
    """The numbers of values in a table."""
    return np.asarray([table[value] for value in values], np.int32)


def _split_thread(number: int) -> tuple[str, str]:
    """Process and thread of a global id, whose low 48 bits are theirs."""
    return str(number >> 24 & 0xFFFFFF), str(number & 0xFFFFFF)
