"""Decodes a piece of a trace into columns; decoded events are short-lived."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import compress, repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.files import JSON_ERRORS
from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.event_statements import make_collective
from perfkit.trace.readers.event_table.piece_columns import UNKNOWN_DURATION, Columns, EventKind, PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.kineto.counter_events import build_counters
from perfkit.trace.readers.kineto.event_members import SIGNATURE, join_members, mark_present
from perfkit.trace.readers.kineto.kineto import AnyEvent, EventDecoders
from perfkit.trace.readers.kineto.rare_fields import add_rare_fields, find_rows
from perfkit.trace.readers.kineto.sync_records import SYNCS, build_syncs

_KINDS = {
    "X": EventKind.COMPLETE, "B": EventKind.BEGIN, "E": EventKind.END, "s": EventKind.FLOW, "f": EventKind.FLOW,
    "t": EventKind.FLOW,
    "i": EventKind.MEMORY, "I": EventKind.MEMORY, "C": EventKind.COUNTER, "M": EventKind.METADATA,
    "": EventKind.UNKNOWN,
}  # fmt: skip
_FLOWS = {
    "ac2g": 0, "async_cpu_to_gpu": 0, "async_gpu": 0, "async": 0, "HostToDevice": 0, "fwdbwd": 1, "forward_backward": 1,
    "cpu_to_cuda": 2, "cpu_to_xpu": 2, "async_npu": 2,
    "DataFlow": 0,  # of ROCm's older profilers, whose ends are steps (`t`)
}  # fmt: skip
_MEMORY, _OUT_OF_MEMORY = "[memory]", "[OutOfMemory]"
_NO_ARGS = EventArgs()
_THREAD = attrgetter("pid", "tid")
_GEOMETRY = attrgetter("grid", "block", "shared", "registers", "blocks_per_sm", "occupancy")
_ARGS = attrgetter("args")


class ColumnBuilder:
    """Turns pieces of one trace into columns, in the order of the pieces."""

    def __init__(self, tables: TraceTables) -> None:
        self.tables = tables
        self.decoders = EventDecoders(exact=False)

    def add(self, piece: bytes) -> PieceColumns | None:
        """The columns of text that holds whole events separated by commas; None if it is anything else."""
        while True:
            try:
                events = self.decoders.many.decode(b"".join((b"[", piece, b"]")))
            except JSON_ERRORS:
                return None
            part = self.build(events, piece)
            if part is not None:
                return part

    def build(self, events: list[AnyEvent], text: bytes) -> PieceColumns | None:
        """The columns of events that were decoded from `text`.

        None if doubles cannot hold their times: then `decoders` has been exchanged and they are to be decoded again.
        """
        notes: Counter[str] = Counter()
        count = len(events)
        time_ns, good, scale = self._convert_times(events, text)
        if scale == 0:
            return None
        kind = np.fromiter(map(_KINDS.get, map(attrgetter("ph"), events), repeat(EventKind.IGNORED)), np.int8, count)
        timed = (kind <= EventKind.COUNTER) & ~good
        if timed.any():
            notes["impossible time"] += int(timed.sum())
            kind[timed] = EventKind.IGNORED
        unknown = int((kind == EventKind.UNKNOWN).sum())
        if unknown:  # some writers close their list with an empty event
            notes["no phase"] += unknown - sum(
                1 for event in compress(events, kind == EventKind.UNKNOWN) if not event.name
            )
        if scale == 1:
            notes["in nanoseconds"] += 1

        def of(which: NDArray[np.bool_]) -> tuple[list[AnyEvent], NDArray[np.int64]]:
            if which.all():
                return events, time_ns
            return list(compress(events, which.tobytes())), time_ns[which]

        of_rows = of(kind <= EventKind.END)
        rows = self._build_rows(*of_rows, kind[kind <= EventKind.END], scale, notes)
        return PieceColumns(
            rows=rows,
            flows=self._build_flows(*of(kind == EventKind.FLOW)),
            memory=self._build_memory(*of(kind == EventKind.MEMORY)),
            syncs=build_syncs(*of_rows, find_rows(rows, self.tables, SYNCS)),
            counters=build_counters(events, time_ns, kind == EventKind.COUNTER, text, self.tables),
            metadata=self._collect_metadata(of(kind == EventKind.METADATA)[0]),
            entries=self.tables.take_fresh(),
            notes=+notes,
        )

    def _convert_times(self, events: list[AnyEvent], text: bytes) -> tuple[NDArray[np.int64], NDArray[np.bool_], int]:
        times = map(attrgetter("ts"), events)
        if self.decoders.exact:
            return parse_numbers.parse_exact_times(list(times))
        values = np.fromiter(times, np.float64, len(events))
        longest = np.abs(values).max(initial=0, where=np.abs(values) < 1e19)
        if longest >= parse_numbers.DOUBLE_IS_EXACT_BELOW_US and (
            longest >= parse_numbers.DOUBLE_IS_INTEGER_BELOW or parse_numbers.FRACTION_OF_LONG_TIME.search(text)
        ):
            self.decoders = EventDecoders(exact=True)
            return np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_), 0
        return *parse_numbers.scale_times(values, 1000), 1000

    def _build_rows(
        self,
        events: list[AnyEvent],
        start_ns: NDArray[np.int64],
        kind: NDArray[np.int8],
        scale: int,
        notes: Counter[str],
    ) -> Columns:
        count = len(events)
        tables = self.tables
        args = [event_args or _NO_ARGS for event_args in map(_ARGS, events)]

        def numbers_of(table: Callable[[Any], int], keys: Iterable[Any]) -> NDArray[np.int32]:
            return np.fromiter(map(table, keys), np.int32, count)

        def arg(name: str) -> NDArray[np.int64]:
            return parse_numbers.parse_integers(lambda: map(attrgetter(name), args), count)

        def either(name: str, other: str) -> NDArray[np.int64]:
            first, second = arg(name), arg(other)
            return np.where(first == NONE, second, first)

        rows: Columns = {
            "kind": kind,
            "cat": numbers_of(tables.cat.__getitem__, map(attrgetter("cat"), events)),
            "name": numbers_of(tables.name.__getitem__, map(attrgetter("name"), events)),
            "thread": numbers_of(tables.thread.__getitem__, map(_THREAD, events)),
            "start_ns": start_ns,
            "duration": self._compute_durations(events, start_ns, kind, scale, notes),
            "correlation": either("correlation", "correlation_xla"),
            "external_id": either("external_id", "external_id_old"),
            "device": arg("device"),
            "stream": arg("stream"),
            "signature": join_members(args, "types", SIGNATURE, tables.signature),
            "geometry": join_members(args, "grid", _GEOMETRY, tables.geometry),
            "sequence": arg("sequence"),
            "moved_bytes": parse_numbers.mask_implausible_sizes(either("moved", "moved_rocm")),
            "collective": self._build_collectives(args),
            "hlo": mark_present(map(attrgetter("hlo_op"), args), count),
            "numbered": np.zeros(count, np.bool_),
            "stated": np.full(count, NONE, np.int32),
            "node": np.full(count, NONE, np.int64),
        }
        add_rare_fields(rows, args, tables)
        return rows

    def _compute_durations(
        self,
        events: list[AnyEvent],
        start_ns: NDArray[np.int64],
        kind: NDArray[np.int8],
        scale: int,
        notes: Counter[str],
    ) -> NDArray[np.int64]:
        values = np.fromiter(map(attrgetter("dur"), events), np.float64, len(events))
        duration, good = parse_numbers.scale_times(values, scale)
        complete = kind == EventKind.COMPLETE
        room = np.iinfo(np.int64).max - np.maximum(start_ns, 0)
        for note, bad in (
            ("no duration", np.isnan(values)),
            ("impossible duration", (~good & ~np.isnan(values)) | (duration > room)),
            ("negative duration", duration < 0),
        ):
            bad &= complete
            if bad.any():
                notes[note] += int(bad.sum())
            duration[bad] = UNKNOWN_DURATION
        duration[~complete] = 0
        return duration

    def _build_collectives(self, args: list[EventArgs]) -> NDArray[np.int32]:
        column = np.full(len(args), NONE, np.int32)
        for index in [index for index, event_args in enumerate(args) if event_args.collective]:
            column[index] = self.tables.collective[make_collective(args[index])]
        return column

    def _build_flows(self, events: list[AnyEvent], time_ns: NDArray[np.int64]) -> Columns:
        kind = np.fromiter(map(_FLOWS.get, map(attrgetter("cat"), events), repeat(NONE)), np.int8, len(events))
        known = kind != NONE
        events = list(compress(events, known.tobytes()))
        return {
            "kind": kind[known],
            "id": parse_numbers.parse_integers(lambda: map(attrgetter("id"), events), len(events)),
            "start": np.fromiter((event.ph == "s" for event in events), np.bool_, len(events)),
            "time_ns": time_ns[known],
            "thread": self._build_threads(events),
        }

    def _build_memory(self, events: list[AnyEvent], time_ns: NDArray[np.int64]) -> Columns:
        known = np.fromiter((event.name in (_MEMORY, _OUT_OF_MEMORY) for event in events), np.bool_, len(events))
        events = list(compress(events, known.tobytes()))
        args = [event.args or _NO_ARGS for event in events]

        def arg(name: str) -> NDArray[np.int64]:
            return parse_numbers.parse_integers(lambda: map(attrgetter(name), args), len(args))

        return {
            "time_ns": time_ns[known],
            "address": arg("address"),
            "size": parse_numbers.mask_implausible_changes(arg("size")),
            "device_type": arg("device_type").astype(np.int32),
            "device": arg("device_id").astype(np.int32),
            "allocated": parse_numbers.mask_implausible_changes(arg("allocated")),
            "reserved": parse_numbers.mask_implausible_changes(arg("reserved")),
            "failed": np.fromiter((event.name == _OUT_OF_MEMORY for event in events), np.bool_, len(args)),
            "thread": self._build_threads(events),
        }

    def _build_threads(self, events: list[AnyEvent]) -> NDArray[np.int32]:
        return np.fromiter(map(self.tables.thread.__getitem__, map(_THREAD, events)), np.int32, len(events))

    def _collect_metadata(self, events: list[AnyEvent]) -> list[tuple[int, str, bytes]]:
        stated = []
        for event in events:
            args = event.args or _NO_ARGS
            text = bytes(args.labels if event.name == "process_labels" else args.name)
            if text:
                stated.append((self.tables.thread[_THREAD(event)], str(event.name), text))
        return stated
