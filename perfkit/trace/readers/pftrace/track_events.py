"""Slices of Perfetto's tracks as rows: what the CPU did, with its arguments."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import NONE, SYNC_KINDS, Ints
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.empty_columns import make_rows
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.event_table.event_statements import fill_statements
from perfkit.trace.readers.event_table.piece_columns import Columns, EventKind
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.pftrace.annotations import NAME, NAME_NUMBER, SIGNED, UNSIGNED, AnnotationTable
from perfkit.trace.readers.pftrace.counters import read_counter_tracks
from perfkit.trace.readers.pftrace.interned import ANNOTATION_NAMES, CATEGORIES, EVENT_NAMES, InternedTables
from perfkit.trace.readers.pftrace.tracks import Tracks
from perfkit.trace.readers.protobuf.columns import (
    map_distinct,
    map_pairs,
    number_texts,
    place_values,
)
from perfkit.trace.readers.protobuf.wire import (
    BYTES,
    WireBuffer,
    WireFields,
    make_buffer,
    make_tag,
    split_messages,
)

# Fields of TrackEvent, and the types of events that are rows.
_CATEGORY_NUMBER, _ANNOTATION, _TYPE, _NAME_NUMBER, _TRACK, _CATEGORY, _NAME = 3, 4, 9, 10, 11, 22, 23
_KINDS = {1: EventKind.BEGIN, 2: EventKind.END}

# Arguments that are columns, by their names in Chrome's format, and in that of ROCm's profiler.
_NUMBERS = {
    "External id": "external_id", "external id": "external_id", "correlation": "correlation", "device": "device",
    "stream": "stream", "Sequence number": "sequence", "bytes": "moved_bytes", "wait_on_stream": "source",
    "wait_on_cuda_event_record_corr_id": "record", "corr_id": "correlation", "copy_bytes": "moved_bytes",
}  # fmt: skip
_SIGNATURE = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
_COLLECTIVE = ("Collective name", "Comms Id")
_SYNC_KIND, _SYNCS = "cuda_sync_kind", "cuda_sync"
_USED = frozenset((*_NUMBERS, *_SIGNATURE, *_COLLECTIVE, _SYNC_KIND))
# Octets of the tag and length of an annotation of less than 16 KiB.
_LEAST_FRAME, _MOST_FRAME = 2, 3
_NAME_TAG, _ONE_OCTET = make_tag(NAME, BYTES), 1 << 7  # lengths below stand in one octet
# The process of CUPTI's own work, in which torch gives slices no category.
_OVERHEAD_PROCESS, _OVERHEAD = "Overhead", "overhead"
_ARGS = msgspec.json.Decoder(EventArgs, strict=False)


class TrackEventReader:
    """Reads slices of one trace into columns, in the order of their packets."""

    def __init__(self, tables: TraceTables, interned: InternedTables, tracks: Tracks) -> None:
        self._tables, self._interned, self._tracks = tables, interned, tracks
        self._buffer = make_buffer()
        self._annotations = AnnotationTable(interned)
        self._signatures: dict[tuple[Any, ...], int] = {}  # by state and bytes

    def read(
        self, buffer: WireBuffer, events: WireFields, time_ns: Ints, state: Ints, track: Ints
    ) -> tuple[Columns, Columns, Columns, int]:
        """Rows, waits and samples of counters of messages of TrackEvent in `buffer`, and how many are damaged.

        `time_ns`, `state` and `track` have their packets' time, state and default track.
        """
        self._buffer = buffer
        fields, damaged = split_messages(buffer, events.start, events.end)
        counters = read_counter_tracks(fields, time_ns, track, self._tables, self._tracks)
        kind = np.full(len(time_ns), NONE, np.int64)
        place_values(kind, fields.select_numbers(_TYPE))
        kind = np.asarray([NONE, *(_KINDS.get(each, NONE) for each in range(5))])[np.clip(kind, -1, 4) + 1]
        rows = np.flatnonzero(kind != NONE)
        place = np.full(len(time_ns), NONE, np.int64)
        place[rows] = np.arange(len(rows))
        if len(rows) < len(place):
            fields = WireFields(*(column[np.flatnonzero(place[fields.owner] != NONE)] for column in fields))
            fields = fields._replace(owner=place[fields.owner])
        track, state = track[rows], state[rows]
        place_values(track, fields.select_numbers(_TRACK))
        thread = map_distinct(track, lambda number: self._tables.thread[self._tracks.find_thread(number)])
        own = {name: np.full(len(rows), NONE, np.int64) for name in set(_NUMBERS.values())}
        text = {name: (np.full(len(rows), NONE, np.int64), np.full(len(rows), NONE, np.int64)) for name in _SIGNATURE}
        collective, is_sync = self._read_annotations(fields, state, own, text)
        cat = self._read_categories(fields, state, track)
        cat[is_sync] = self._tables.cat[_SYNCS]
        columns = make_rows(len(rows)) | {
            "kind": kind[rows].astype(np.int8),
            "cat": cat.astype(np.int32),
            "name": self._read_names(fields, state).astype(np.int32),
            "thread": thread.astype(np.int32),
            "start_ns": time_ns[rows],
            **{name: own[name] for name in ("correlation", "external_id", "device", "stream", "sequence")},
            "moved_bytes": parse_numbers.mask_implausible_sizes(own["moved_bytes"]),
            "signature": self._read_signatures(state, text),
        }
        fill_statements(columns, collective.items(), self._tables)
        return columns, self._build_syncs(columns, own, is_sync), counters, len(damaged)

    def _read_names(self, fields: WireFields, state: Ints) -> Ints:
        names = np.full(len(state), self._tables.name[""], np.int64)
        table, interned = self._tables.name, self._interned.names[EVENT_NAMES]
        numbered = fields.select_numbers(_NAME_NUMBER)
        names[numbered.owner] = map_pairs(
            state[numbered.owner], numbered.value, lambda *key: table[interned.get(key, "")]
        )
        return self._read_texts(fields.select_bytes(_NAME), names, table.__getitem__)

    def _read_categories(self, fields: WireFields, state: Ints, track: Ints) -> Ints:
        table, interned = self._tables.cat, self._interned.names[CATEGORIES]
        cats = np.full(len(state), table[""], np.int64)
        process = {
            number: track.process_name
            for number, track in self._tracks.items()
            if track.process_name == _OVERHEAD_PROCESS
        }
        if process:
            overhead = {number for number in np.unique(track).tolist() if self._is_overhead(number)}
            cats[np.isin(track, list(overhead))] = table[_OVERHEAD]
        numbered = fields.select_numbers(_CATEGORY_NUMBER)
        cats[numbered.owner] = map_pairs(
            state[numbered.owner], numbered.value, lambda *key: table[interned.get(key, "")]
        )
        return self._read_texts(fields.select_bytes(_CATEGORY), cats, table.__getitem__)

    def _is_overhead(self, number: int) -> bool:
        track = self._tracks.get(number)
        parent = None if track is None else self._tracks.get(track.parent)
        return any(each is not None and each.process_name == _OVERHEAD_PROCESS for each in (track, parent))

    def _read_texts(self, fields: WireFields, into: Ints, number_of: Callable[[str], int]) -> Ints:
        """Put the numbers of texts that stand in the events themselves."""
        data = self._buffer.data
        for owner, start, end in zip(fields.owner.tolist(), fields.start.tolist(), fields.end.tolist(), strict=True):
            into[owner] = number_of(data[start:end].decode("utf-8", "replace"))
        return into

    def _read_annotations(
        self, fields: WireFields, state: Ints, own: Columns, text: dict[str, tuple[Ints, Ints]]
    ) -> tuple[dict[int, EventArgs], NDArray[np.bool_]]:
        """Fill in the columns of numbers and the places of signatures.

        Returns the arguments of rows that state a collective, and which rows are waits.
        """
        all_annotations = fields.select_bytes(_ANNOTATION)
        annotations = self._select_used(all_annotations)
        parts, _ = split_messages(self._buffer, annotations.start, annotations.end)
        name, names = self._read_annotation_names(annotations, parts, state)
        number = np.full(len(annotations.owner), NONE, np.int64)
        for each in (UNSIGNED, SIGNED):
            place_values(number, parts.select_numbers(each))
        is_sync = np.zeros(len(state), np.bool_)
        stating: set[int] = set()
        for index, label in enumerate(names):
            if label in _NUMBERS:
                which = np.flatnonzero(name == index)
                own[_NUMBERS[label]][annotations.owner[which]] = number[which]
            elif label in text:
                which = np.flatnonzero(name == index)
                start, end = text[label]
                start[annotations.owner[which]] = annotations.start[which]
                end[annotations.owner[which]] = annotations.end[which]
            elif label == _SYNC_KIND:
                is_sync[annotations.owner[name == index]] = True
            elif label in _COLLECTIVE:
                stating |= set(annotations.owner[name == index].tolist())
        return self._decode_args(all_annotations, sorted(stating), state), is_sync

    def _select_used(self, annotations: WireFields) -> WireFields:
        """Leave out annotations that begin with a name that no column is of, such as those of Python's functions."""
        octets = self._buffer.octets
        length = octets[annotations.start + 1].astype(np.int64)
        begin = annotations.start + 2
        named = (octets[annotations.start] == _NAME_TAG) & (length < _ONE_OCTET) & (begin + length <= annotations.end)
        which = np.flatnonzero(named)
        table: dict[str, int] = {}
        names = WireFields(which, which, length[which], begin[which], (begin + length)[which])
        number = number_texts(self._buffer, names, table)
        unused = np.asarray([label not in _USED for label in table], np.bool_)[number]
        keep = np.ones(len(named), np.bool_)
        keep[which[unused]] = False
        return WireFields(*(column[keep] for column in annotations))

    def _read_annotation_names(self, annotations: WireFields, parts: WireFields, state: Ints) -> tuple[Ints, list[str]]:
        """The number of each annotation's name, and the distinct names."""
        table: dict[str, int] = {"": 0}
        name = np.zeros(len(annotations.owner), np.int64)
        inline = parts.select_bytes(NAME)
        if len(inline.owner):
            name[inline.owner] = number_texts(self._buffer, inline, table)
        numbered = parts.select_numbers(NAME_NUMBER)
        interned = self._interned.names[ANNOTATION_NAMES]
        name[numbered.owner] = map_pairs(
            state[annotations.owner[numbered.owner]],
            numbered.value,
            lambda *key: table.setdefault(interned.get(key, ""), len(table)),
        )
        return name, list(table)

    def _decode_args(self, annotations: WireFields, rows: list[int], state: Ints) -> dict[int, EventArgs]:
        args = {}
        first = np.searchsorted(annotations.owner, rows).tolist()
        last = np.searchsorted(annotations.owner, rows, side="right").tolist()
        data, starts, ends = self._buffer.data, annotations.start, annotations.end
        for row, begin, behind in zip(rows, first, last, strict=True):
            pairs = [
                self._annotations.read(int(state[row]), data[starts[each] : ends[each]])
                for each in range(begin, behind)
            ]
            text = b",".join(msgspec.json.encode(name) + b":" + value for name, value in pairs if value)
            try:
                args[row] = _ARGS.decode(b"{" + text + b"}")
            except msgspec.MsgspecError:
                continue
        return args

    def _read_signatures(self, state: Ints, text: dict[str, tuple[Ints, Ints]]) -> NDArray[np.int32]:
        column = np.full(len(state), NONE, np.int32)
        rows = np.flatnonzero(text["Input type"][0] != NONE)
        data, known, read = self._buffer.data, self._signatures, self._annotations.read
        spans = [(text[name][0][rows], text[name][1][rows]) for name in _SIGNATURE]
        raw = [
            [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
            for starts, ends in _join_neighbors(spans)
        ]  # -1 to -1 is empty
        numbers = []
        for place, key in enumerate(zip(state[rows].tolist(), *raw, strict=True)):
            number = known.get(key)
            if number is None:
                written = [data[starts[place] : ends[place]] for starts, ends in spans]
                parts = [read(key[0], each)[1] if each else b"" for each in written]
                number = known[key] = self._tables.signature[b"\0".join(parts)]
            numbers.append(number)
        column[rows] = numbers
        return column

    def _build_syncs(self, rows: Columns, own: Columns, is_sync: NDArray[np.bool_]) -> Columns:
        names = {number: SYNC_KINDS.index(name) for name, number in self._tables.name.items() if name in SYNC_KINDS}
        which = np.flatnonzero(is_sync & np.isin(rows["name"], list(names)) & (rows["kind"] == EventKind.BEGIN))
        return {
            "kind": np.asarray([names[number] for number in rows["name"][which].tolist()], np.int8),
            "time_ns": rows["start_ns"][which],
            "call": own["correlation"][which],
            "device": own["device"][which],
            "stream": own["stream"][which],
            "source": own["source"][which],
            "record": own["record"][which],
        }


def _join_neighbors(spans: Sequence[tuple[Ints, Ints]]) -> list[tuple[Ints, Ints]]:
    """Spans of bytes, one for those with no more than a tag and a length between them in every row."""
    joined = [spans[0]]
    for starts, ends in spans[1:]:
        first, last = joined[-1]
        gap = starts - last
        if ((gap >= _LEAST_FRAME) & (gap <= _MOST_FRAME)).all():
            joined[-1] = first, ends
        else:
            joined.append((starts, ends))
    return joined
