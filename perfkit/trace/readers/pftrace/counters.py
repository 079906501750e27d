"""Samples of counters: of GPUs (`GpuCounterEvent`) and of counter tracks."""

from typing import NamedTuple

import numpy as np

from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.pftrace.interned import INTERNED, CounterNames
from perfkit.trace.readers.pftrace.tracks import Tracks
from perfkit.trace.readers.protobuf.columns import map_distinct, map_pairs, place_values
from perfkit.trace.readers.protobuf.wire import EIGHT_BYTES, WireBuffer, WireFields, split_messages

# Fields of GpuCounterEvent, of its GpuCounter and of TrackEvent.
_DESCRIPTOR, _COUNTER, _GPU, _DESCRIPTOR_NUMBER = 1, 2, 3, 4
_OF_SEQUENCE = "of a sequence"
_NUMBER, _WHOLE, _DOUBLE = 1, 2, 3
_TYPE, _TRACK, _TRACK_WHOLE, _TRACK_DOUBLE = 9, 11, 30, 44
_COUNTER_TYPE = 4


class CounterPackets(NamedTuple):
    """Messages of GpuCounterEvent, and the time, sequence and state of the packet of each."""

    events: WireFields
    time_ns: Ints
    sequence: Ints
    state: Ints


def read_gpu_counters(
    buffer: WireBuffer, packets: CounterPackets, tables: TraceTables, counters: CounterNames
) -> Columns:
    """Samples of GPU counters."""
    fields, _ = split_messages(buffer, packets.events.start, packets.events.end)
    own = fields.select_bytes(_DESCRIPTOR)
    for owner, start, end in zip(own.owner.tolist(), own.start.tolist(), own.end.tolist(), strict=True):
        counters.add((_OF_SEQUENCE, int(packets.sequence[owner]), 0), buffer.data[start:end])
    gpu = np.zeros(len(packets.time_ns), np.int64)
    place_values(gpu, fields.select_numbers(_GPU))
    descriptor = map_distinct(packets.sequence, lambda each: counters.find_descriptor((_OF_SEQUENCE, each, 0)))
    numbered = fields.select_numbers(_DESCRIPTOR_NUMBER)
    descriptor[numbered.owner] = map_pairs(
        packets.state[numbered.owner], numbered.value, lambda *key: counters.find_descriptor((INTERNED, *key))
    )
    samples = fields.select_bytes(_COUNTER)
    if not len(samples.owner):
        return NO_COUNTERS
    parts, _ = split_messages(buffer, samples.start, samples.end)
    number = np.full(len(samples.owner), NONE, np.int64)
    place_values(number, parts.select_numbers(_NUMBER))
    names = map_pairs(descriptor[samples.owner], number, lambda *key: tables.name[counters.find_name(*key)])
    return {
        "name": names.astype(np.int32),
        "thread": map_distinct(gpu[samples.owner], lambda each: tables.thread[f"GPU {each} Counters", ""]).astype(
            np.int32
        ),
        "time_ns": packets.time_ns[samples.owner],
        "value": _read_values(parts, len(samples.owner), _WHOLE, _DOUBLE),
    }


def read_counter_tracks(fields: WireFields, time_ns: Ints, track: Ints, tables: TraceTables, tracks: Tracks) -> Columns:
    """Samples of the events of counter tracks among messages of TrackEvent, which are split into `fields`."""
    kind = np.full(len(time_ns), NONE, np.int64)
    place_values(kind, fields.select_numbers(_TYPE))
    rows = np.flatnonzero(kind == _COUNTER_TYPE)
    if not len(rows):
        return NO_COUNTERS
    track = np.array(track)
    place_values(track, fields.select_numbers(_TRACK))
    return {
        "name": map_distinct(track[rows], lambda each: tables.name[tracks.find_name(each)]).astype(np.int32),
        "thread": map_distinct(track[rows], lambda each: tables.thread[tracks.find_thread(each)]).astype(np.int32),
        "time_ns": time_ns[rows],
        "value": _read_values(fields, len(time_ns), _TRACK_WHOLE, _TRACK_DOUBLE)[rows],
    }


def _read_values(fields: WireFields, count: int, whole: int, double: int) -> Ints:
    """The numbers of messages, whether they are written whole or as doubles."""
    values = np.full(count, np.nan)
    place_values(values, fields.select_numbers(whole))
    exact = fields.select_numbers(double, EIGHT_BYTES)
    values[exact.owner] = exact.value.view(np.float64)
    return values
