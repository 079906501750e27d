"""Work of GPUs (`GpuRenderStageEvent`) as rows.

torch writes what Chrome's format has as arguments of kernels as text in `extra_data`, and grid and block as a launch.
The kind of a copy, the static part of a kernel's shared memory and its occupancy are not written.
"""

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.empty_columns import make_rows
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.event_statements import fill_statements
from perfkit.trace.readers.event_table.graph_nodes import combine_graph_node
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.pftrace.interned import ARGUMENT_NAMES, EVENT_NAMES, InternedTables
from perfkit.trace.readers.protobuf.columns import (
    map_pairs,
    number_texts,
    parse_decimals,
    place_values,
)
from perfkit.trace.readers.protobuf.wire import (
    WireBuffer,
    WireFields,
    make_buffer,
    split_message,
    split_messages,
)

# Fields of GpuRenderStageEvent, of its ExtraData and of ComputeKernelLaunch.
_DURATION, _QUEUE, _STAGE, _EXTRA, _GPU, _QUEUE_NUMBER, _STAGE_NUMBER, _NAME, _NAME_NUMBER, _LAUNCH = (
    2, 3, 4, 6, 11, 13, 14, 15, 20, 21,
)  # fmt: skip
_EXTRA_NAME, _EXTRA_VALUE = 1, 2
_GRID, _BLOCK, _ARGUMENT = 1, 2, 3
_ARGUMENT_NUMBER, _ARGUMENT_VALUES = 1, (2, 3, 4)
_REGISTERS = "registers_per_thread"

# torch's stages by their names; a stage of another writer is work if its category says that it computes.
_CATEGORIES = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node", "HostNode": "graph_host_node",
}  # fmt: skip
_COMPUTE, _KERNEL, _OTHER = 2, "kernel", "gpu_render_stage"
_NUMBERS = {
    "device id": "device", "stream id": "stream", "correlation": "correlation", "bytes": "moved_bytes",
    "graph node id": "node", "graph id": "graph",
}  # fmt: skip
_COLLECTIVE = "Collective name"
_NAMED_LANE = "stream "
_ARGS = msgspec.json.Decoder(EventArgs, strict=False)


class RenderStageReader:
    """Reads GPU work of one trace into columns, in the order of its packets."""

    def __init__(self, tables: TraceTables, interned: InternedTables) -> None:
        self._tables, self._interned = tables, interned
        self._buffer = make_buffer()
        self._geometries: dict[tuple[int, bytes], int] = {}
        self.lanes: dict[int, str] = {}  # what names a stream, by the thread that stands for it
        self.statements: dict[str, str] = {}  # of the device and process, the same for all of its work

    def read(self, buffer: WireBuffer, events: WireFields, time_ns: Ints, state: Ints) -> tuple[Columns, int]:
        """Rows of messages of GpuRenderStageEvent in `buffer`, and how many are damaged."""
        self._buffer = buffer
        fields, damaged = split_messages(buffer, events.start, events.end)
        count = len(time_ns)
        number = {
            each: np.full(count, NONE, np.int64)
            for each in (_DURATION, _QUEUE, _STAGE, _GPU, _QUEUE_NUMBER, _STAGE_NUMBER)
        }
        for each, column in number.items():
            place_values(column, fields.select_numbers(each))
        own = {name: np.full(count, NONE, np.int64) for name in _NUMBERS.values()}
        stating = self._read_extra(fields, own)
        stage = np.where(number[_STAGE_NUMBER] != NONE, number[_STAGE_NUMBER], number[_STAGE])
        lane = np.where(number[_QUEUE_NUMBER] != NONE, number[_QUEUE_NUMBER], number[_QUEUE])
        device = np.where(own["device"] != NONE, own["device"], np.maximum(number[_GPU], 0))
        stream = np.where(own["stream"] != NONE, own["stream"], lane)
        columns = make_rows(count) | {
            "cat": map_pairs(state, stage, self._find_category).astype(np.int32),
            "name": self._read_names(fields, state, stage).astype(np.int32),
            "thread": self._find_threads(state, device, stream, lane).astype(np.int32),
            "start_ns": time_ns,
            "duration": number[_DURATION],
            "correlation": own["correlation"],
            "device": device,
            "stream": stream,
            "moved_bytes": parse_numbers.mask_implausible_sizes(own["moved_bytes"]),
            "node": combine_graph_node(own["node"], own["graph"]),
        }
        columns["geometry"] = self._read_geometries(fields, state)
        fill_statements(columns, stating, self._tables)
        return columns, len(damaged)

    def _find_category(self, state: int, stage: int) -> int:
        name, category = self._interned.specifications.get((state, stage), ("", 0))
        return self._tables.cat[_CATEGORIES.get(name, _KERNEL if category == _COMPUTE else _OTHER)]

    def _read_names(self, fields: WireFields, state: Ints, stage: Ints) -> Ints:
        table, interned = self._tables.name, self._interned
        names = map_pairs(
            state, stage, lambda state, stage: table[interned.specifications.get((state, stage), ("", 0))[0]]
        )
        numbered = fields.select_numbers(_NAME_NUMBER)
        names[numbered.owner] = map_pairs(
            state[numbered.owner],
            numbered.value,
            lambda *key: table[interned.names[EVENT_NAMES].get(key, "")],
        )
        own = fields.select_bytes(_NAME)
        for owner, start, end in zip(own.owner.tolist(), own.start.tolist(), own.end.tolist(), strict=True):
            names[owner] = table[self._buffer.data[start:end].decode("utf-8", "replace")]
        return names

    def _find_threads(self, state: Ints, device: Ints, stream: Ints, lane: Ints) -> Ints:
        """The thread that stands for each stream of a device, as Chrome's format has it."""
        threads = map_pairs(device, stream, lambda device, stream: self._tables.thread[str(device), str(stream)])
        for thread, first in zip(*np.unique(threads, return_index=True), strict=True):
            name = self._interned.specifications.get((int(state[first]), int(lane[first])), ("", 0))[0]
            self.lanes.setdefault(int(thread), name.partition("] ")[2] or name)
        return threads

    def _read_extra(self, fields: WireFields, own: dict[str, Ints]) -> Iterable[tuple[int, EventArgs]]:
        """Fill in the numbers that are written as text; the arguments of rows that state a collective."""
        extra = fields.select_bytes(_EXTRA)
        parts, _ = split_messages(self._buffer, extra.start, extra.end)
        table: dict[str, int] = {"": 0}
        name = np.zeros(len(extra.owner), np.int64)
        texts = parts.select_bytes(_EXTRA_NAME)
        if len(texts.owner):
            name[texts.owner] = number_texts(self._buffer, texts, table)
        values = parts.select_bytes(_EXTRA_VALUE)
        kind = name[values.owner]
        row = extra.owner[values.owner]
        stating: set[int] = set()
        for label, index in table.items():
            which = np.flatnonzero(kind == index)
            if not len(which):
                continue
            if label in _NUMBERS:
                own[_NUMBERS[label]][row[which]] = parse_decimals(self._buffer, values.start[which], values.end[which])
            elif label == _COLLECTIVE:
                stating |= set(row[which].tolist())
            elif label == "arch":
                self.statements.setdefault(label, self._read_text(values, int(which[0])))
        return self._decode_args(sorted(stating), row, kind, values, list(table))

    def _read_text(self, values: WireFields, index: int) -> str:
        return self._buffer.data[int(values.start[index]) : int(values.end[index])].decode("utf-8", "replace")

    def _decode_args(
        self, rows: list[int], row: Ints, kind: Ints, values: WireFields, names: list[str]
    ) -> list[tuple[int, EventArgs]]:
        decoded = []
        first = np.searchsorted(row, rows).tolist()
        last = np.searchsorted(row, rows, side="right").tolist()
        for each, begin, behind in zip(rows, first, last, strict=True):
            args = {names[int(kind[index])]: self._read_text(values, index) for index in range(begin, behind)}
            try:
                decoded.append((each, _ARGS.decode(msgspec.json.encode(args))))
            except msgspec.MsgspecError:
                continue
        return decoded

    def _read_geometries(self, fields: WireFields, state: Ints) -> NDArray[np.int32]:
        column = np.full(len(state), NONE, np.int32)
        launches = fields.select_bytes(_LAUNCH)
        spans = zip(launches.owner.tolist(), launches.start.tolist(), launches.end.tolist(), strict=True)
        for owner, start, end in spans:
            key = int(state[owner]), self._buffer.data[start:end]
            if key not in self._geometries:
                self._geometries[key] = self._decode_launch(*key)
            column[owner] = self._geometries[key]
        return column

    def _decode_launch(self, state: int, raw: bytes) -> int:
        """The number of a launch's grid, block and registers."""
        grid, block, registers = b"", b"", b""
        try:
            for number, _, value in split_message(raw):
                if number in (_GRID, _BLOCK) and isinstance(value, bytes):
                    sizes = {key: size for key, _, size in split_message(value)}
                    written = msgspec.json.encode([sizes.get(axis, 1) for axis in (1, 2, 3)])
                    grid, block = (written, block) if number == _GRID else (grid, written)
                elif number == _ARGUMENT and isinstance(value, bytes):
                    parts = {key: part for key, _, part in split_message(value)}
                    name = self._interned.names[ARGUMENT_NAMES].get((state, int(parts.get(_ARGUMENT_NUMBER, 0))), "")
                    if name == _REGISTERS:
                        found = next((parts[key] for key in _ARGUMENT_VALUES if key in parts), None)
                        registers = b"" if found is None else msgspec.json.encode(found)
        except ValueError:
            return NONE
        return self._tables.geometry[b"\0".join((grid, block, b"", registers, b"", b""))] if grid else NONE
