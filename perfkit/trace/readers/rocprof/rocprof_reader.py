"""Reads rocprofv3's JSON: kernels and copies, calls of HIP, HSA and RCCL, and ranges of roctx.

It has no ops, shapes or allocations of torch; ops, their sizes and steps where the program marks them with roctx
(`torch.autograd.profiler.emit_nvtx`). Counters of kernels are not read.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS
from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, Ints, Trace
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.build_trace import build_trace
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS, NO_FLOWS, NO_MEMORY, NO_SYNCS, make_rows
from perfkit.trace.readers.event_table.nvtx_ranges import parse_range
from perfkit.trace.readers.event_table.piece_columns import Columns, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables, ValueTable
from perfkit.trace.readers.event_table.trace_collector import TraceCollector
from perfkit.trace.readers.event_table.trace_metadata import TraceMetadata
from perfkit.trace.readers.rocprof.cut_json import end_cut_json
from perfkit.trace.readers.rocprof.records import Agent, Axes, Call, Copy, Dispatch, Process, Recording
from perfkit.trace.trace_text import TraceText

_BEGINS = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_DECODER = msgspec.json.Decoder(Recording, strict=False)
_GPU = 2
_MARK = "roctxMark"  # a point in time
_NO_TEXT = ""
_DIRECTIONS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}
_COPY_PREFIX = "MEMORY_COPY_"
_NODE_BITS = 32
# Categories of calls; HSA's are what HIP's consist of.
_HIP, _HSA, _RCCL = "hip_runtime", "hsa_api", "rccl_api"

Timed = Call | Dispatch | Copy


def is_rocprof_json(head: bytes) -> bool:
    """True if a file begins as rocprofv3 writes JSON."""
    return _BEGINS.match(head) is not None


def read_rocprof_json(text: TraceText) -> Trace:
    """Read rocprofv3's JSON, whole or cut off after its names."""
    whole = b"".join(text.blocks)
    recording, cut_at = _decode(whole, str(text.source))
    reader = _RecordReader(TraceCollector(TraceTables(text.limits.names), text.allocations))
    for number, process in enumerate(recording.processes):
        reader.read_process(process, number)
    return build_trace(text, reader.collection, reader.read_metadata(recording.processes), Counter(), cut_at)


def _decode(whole: bytes, label: str) -> tuple[Recording, int | None]:
    try:
        return _DECODER.decode(whole), None
    except msgspec.ValidationError as error:
        raise RunFormatError(f"{label}: not as rocprofv3 writes JSON ({error})") from None
    except JSON_ERRORS:
        ended, end = end_cut_json(whole)
    try:
        return _DECODER.decode(ended), end
    except JSON_ERRORS as error:
        raise RunFormatError(f"{label}: damaged JSON of rocprofv3 ({error}): record it again") from None


class _RecordReader:
    """Reads the records of all processes of a file."""

    def __init__(self, collection: TraceCollector) -> None:
        self.collection = collection
        self._tables = collection.tables
        self._add(make_rows(0))

    def read_process(self, process: Process, number: int) -> None:
        """Read the records of a process, the `number`th of the file."""
        self._read_kernels(process, number)
        self._read_copies(process, number)
        names = [each.operations for each in process.strings.buffer_records]

        def find_name(call: Call) -> str:
            operations = names[call.kind] if 0 <= call.kind < len(names) else []
            return operations[call.operation] if 0 <= call.operation < len(operations) else _NO_TEXT

        records = process.buffer_records
        for calls, category in ((records.hip_api, _HIP), (records.hsa_api, _HSA), (records.rccl_api, _RCCL)):
            rows = self._make_rows(calls, category, map(find_name, calls), number)
            rows["thread"] = self._find_threads(process, calls)
            self._add(rows)
        self._read_markers(process, find_name)

    def read_metadata(self, processes: Sequence[Process]) -> TraceMetadata:
        """The devices, by their numbers among GPUs."""
        gpus = [agent for process in processes for agent in process.agents if agent.type == _GPU]
        devices = {
            agent.logical_node_type_id: escape_control_chars(agent.product_name or agent.name)
            for agent in gpus
            if agent.logical_node_type_id >= 0
        }
        counts = {agent.cu_count for agent in gpus if agent.cu_count > 0}
        return TraceMetadata(devices=devices, properties={"numSms": str(counts.pop())} if len(counts) == 1 else {})

    def _read_kernels(self, process: Process, number: int) -> None:
        kernels = process.buffer_records.kernel_dispatch
        symbols = {each.kernel_id: each for each in process.kernel_symbols}
        names = {
            number: (each.demangled_kernel_name or each.formatted_kernel_name or each.kernel_name).removesuffix(".kd")
            for number, each in symbols.items()
        }
        registers = {number: each.arch_vgpr_count for number, each in symbols.items()}
        infos = [each.dispatch_info for each in kernels]
        rows = self._make_rows(kernels, "kernel", (names.get(each.kernel_id, _NO_TEXT) for each in infos), number)
        device = _number_devices(process.agents, [each.agent_id.handle for each in infos])
        stream = [
            each.stream_id.handle if each.stream_id is not None else each.dispatch_info.queue_id.handle
            for each in kernels
        ]
        self._place(rows, device, _as_column(stream))
        rows["geometry"] = _number(
            (
                _format_geometry(
                    each.grid_size, each.workgroup_size, each.group_segment_size, registers.get(each.kernel_id)
                )
                for each in infos
            ),
            self._tables.geometry,
        )
        self._add(rows)

    def _read_copies(self, process: Process, number: int) -> None:
        copies = process.buffer_records.memory_copy
        kinds = [each.operations for each in process.strings.buffer_records]

        @cache
        def find_name(kind: int, operation: int) -> str:
            names = kinds[kind] if 0 <= kind < len(kinds) else []
            name = names[operation] if 0 <= operation < len(names) else ""
            return f"Memcpy {_DIRECTIONS.get(name.removeprefix(_COPY_PREFIX), '')}".strip()

        rows = self._make_rows(copies, "gpu_memcpy", (find_name(each.kind, each.operation) for each in copies), number)
        gpus = {agent.id.handle for agent in process.agents if agent.type == _GPU}
        agents = [
            each.dst_agent_id.handle if each.dst_agent_id.handle in gpus else each.src_agent_id.handle
            for each in copies
        ]
        stream = [each.stream_id.handle if each.stream_id is not None else 0 for each in copies]
        self._place(rows, _number_devices(process.agents, agents), _as_column(stream))
        rows["moved_bytes"] = parse_numbers.mask_implausible_sizes(_as_column([each.bytes for each in copies]))
        self._add(rows)

    def _read_markers(self, process: Process, find_name: Callable[[Call], str]) -> None:
        """Ranges of roctx: what is pushed and popped, or begun and ended."""
        texts = {each.key: each.value for each in process.strings.marker_api}
        calls = [
            call
            for call in process.buffer_records.marker_api
            if call.correlation_id.internal in texts and not find_name(call).startswith(_MARK)
        ]
        parse = cache(parse_range)
        ranges = [parse(texts[call.correlation_id.internal]) for call in calls]
        rows = self._make_rows(calls, "", (each.name for each in ranges), NONE)
        rows["cat"] = _number((each.category for each in ranges), self._tables.cat)
        rows["thread"] = self._find_threads(process, calls)
        rows["sequence"] = np.asarray([each.sequence for each in ranges], np.int64)
        signed = [index for index, each in enumerate(ranges) if each.types]
        rows["signature"][signed] = _number(
            (b"\0".join((ranges[index].dims, b"", ranges[index].types, b"")) for index in signed),
            self._tables.signature,
        )
        self._add(rows)

    def _make_rows(self, records: Sequence[Timed], category: str, names: Iterable[str], process: int) -> Columns:
        """Rows of records; `process` numbers the process whose calls are counted by themselves, NONE for no calls."""
        count = len(records)
        start = _as_column([each.start_timestamp for each in records])
        end = _as_column([each.end_timestamp for each in records])
        call = _as_column([each.correlation_id.internal for each in records])
        return make_rows(count) | {
            "cat": np.full(count, self._tables.cat[category], np.int32),
            "name": _number((escape_control_chars(name) for name in names), self._tables.name),
            "start_ns": start,
            "duration": end - start,
            "correlation": np.where((call > 0) & (process >= 0), call + (process << _NODE_BITS), NONE),
        }

    def _place(self, rows: Columns, device: Ints, stream: Ints) -> None:
        """Put work on its device and stream, and say what the lanes are."""
        rows["device"], rows["stream"] = device, stream
        lanes = list(zip(map(str, device.tolist()), map(str, stream.tolist()), strict=True))
        rows["thread"] = _number(lanes, self._tables.thread)
        for lane in dict.fromkeys(lanes):
            for kind, text in (("process_labels", f"GPU {lane[0]}"), ("thread_name", f"stream {lane[1]}")):
                self.collection.metadata.append((self._tables.thread[lane], kind, msgspec.json.encode(text)))

    def _find_threads(self, process: Process, calls: Sequence[Call]) -> NDArray[np.int32]:
        name = str(process.metadata.pid)
        return _number(((name, str(each.thread_id)) for each in calls), self._tables.thread)

    def _add(self, rows: Columns) -> None:
        fresh = self._tables.take_fresh()
        self.collection.add(PieceColumns(rows, NO_FLOWS, NO_MEMORY, NO_SYNCS, NO_COUNTERS, [], fresh, Counter()))


def _as_column(values: Sequence[int]) -> Ints:
    return parse_numbers.parse_integers(lambda: values, len(values))


def _number(values: Iterable[Hashable], table: ValueTable) -> NDArray[np.int32]:
    return np.asarray([table[value] for value in values], np.int32)


def _number_devices(agents: Sequence[Agent], handles: Sequence[int]) -> Ints:
    """The number among GPUs of each agent; NONE of what is none."""
    numbers = {agent.id.handle: agent.logical_node_type_id for agent in agents if agent.type == _GPU}
    return _as_column([numbers.get(handle, NONE) for handle in handles])


def _format_geometry(items: Axes, group: Axes, shared: int, registers: int | None) -> bytes:
    """A row of `Trace.geometries`: the grid in groups, as torch has it."""
    grid = [
        -(-whole // part) if part > 0 else 1
        for whole, part in ((items.x, group.x), (items.y, group.y), (items.z, group.z))
    ]
    block = [max(1, group.x), max(1, group.y), max(1, group.z)]
    count = str(registers).encode() if registers else b""
    return b"\0".join((msgspec.json.encode(grid), msgspec.json.encode(block), str(shared).encode(), count, b"", b""))
