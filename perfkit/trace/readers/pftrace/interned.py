"""Names, categories and stages that packets refer to by number."""

from dataclasses import dataclass, field

import numpy as np

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.model import NONE, Ints
from perfkit.trace.readers.protobuf.wire import BYTES, VARINT, WireBuffer, WireFields, split_message

# Fields of InternedData. Of those with entries of number and name it keeps the name, of the others the message.
CATEGORIES, EVENT_NAMES, ANNOTATION_NAMES, STRING_VALUES, GPU_SPECIFICATIONS, COUNTERS = 1, 2, 3, 29, 24, 47
ARGUMENT_NAMES = 1001  # of a kernel's launch
_NAMED = (CATEGORIES, EVENT_NAMES, ANNOTATION_NAMES, STRING_VALUES, ARGUMENT_NAMES)
_ENTRY_NUMBER, _ENTRY_NAME = 1, 2
_DESCRIPTOR, _SPECIFICATION = 2, 1
INTERNED = "interned"  # of a descriptor of counters


@dataclass
class CounterNames:
    """Names of GPU counters, whose numbers hold within a descriptor: an interned one, or those of a sequence."""

    _numbers: dict[tuple[str, int, int], int] = field(default_factory=dict)
    _names: dict[tuple[int, int], str] = field(default_factory=dict)

    def add(self, key: tuple[str, int, int], descriptor: int | bytes) -> None:
        """Take the names of a GpuCounterDescriptor."""
        its = self._numbers.setdefault(key, len(self._numbers))
        for part, _, value in _split(descriptor) if isinstance(descriptor, bytes) else []:
            if part == _SPECIFICATION and isinstance(value, bytes):
                number, name = _read_entry(value)
                self._names[its, number] = name

    def find_descriptor(self, key: tuple[str, int, int]) -> int:
        """The number of a descriptor, NONE of one that the trace lacks."""
        return self._numbers.get(key, NONE)

    def find_name(self, descriptor: int, number: int) -> str:
        """A counter's name, its number where nothing names it."""
        return self._names.get((descriptor, number), f"counter {number}")


@dataclass
class InternedTables:
    """Entries by field of InternedData, state of a sequence and number."""

    names: dict[int, dict[tuple[int, int], str]] = field(default_factory=lambda: {kind: {} for kind in _NAMED})
    specifications: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)  # name and category
    counters: CounterNames = field(default_factory=CounterNames)

    def add(self, buffer: WireBuffer, fields: WireFields, states: Ints) -> None:
        """Take the entries of messages of InternedData; `states` has the state that each message belongs to."""
        for entry in np.flatnonzero(fields.tag & 7 == BYTES).tolist():
            kind, state = int(fields.tag[entry]) >> 3, int(states[fields.owner[entry]])
            raw = buffer.data[int(fields.start[entry]) : int(fields.end[entry])]
            if kind in self.names:
                number, name = _read_entry(raw)
                self.names[kind][state, number] = name
            elif kind == GPU_SPECIFICATIONS:
                number, name = _read_entry(raw)
                category = next((value for key, wire, value in _split(raw) if key == 4 and wire == VARINT), 0)
                self.specifications[state, number] = (name, int(category))
            elif kind == COUNTERS:
                number, _ = _read_entry(raw)
                descriptor = next((value for key, _, value in _split(raw) if key == _DESCRIPTOR), b"")
                self.counters.add((INTERNED, state, number), descriptor)


class SequenceStates:
    """Numbers the states of sequences: numbers of interned entries hold until a packet clears them."""

    def __init__(self) -> None:
        self._current: dict[int, int] = {}
        self._count = 0

    def assign(self, sequence: Ints, cleared: Ints) -> Ints:
        """The state of each of the next packets; `sequence` is each packet's, `cleared` are the packets that clear."""
        clears = np.zeros(len(sequence), np.int64)
        clears[cleared] = 1
        states = np.empty(len(sequence), np.int64)
        for each in np.unique(sequence).tolist():
            its = np.flatnonzero(sequence == each)
            begun = np.cumsum(clears[its])
            fresh = int(begun[-1])
            known = self._current.setdefault(each, self._take(1))
            first_fresh = self._take(fresh)
            states[its] = np.where(begun == 0, known, first_fresh + begun - 1)
            if fresh:
                self._current[each] = first_fresh + fresh - 1
        return states

    def _take(self, count: int) -> int:
        first, self._count = self._count, self._count + count
        return first


def _split(raw: bytes) -> list[tuple[int, int, int | bytes]]:
    try:
        return split_message(raw)
    except ValueError:
        return []


def _read_entry(raw: bytes) -> tuple[int, str]:
    number, name = 0, ""
    for key, _, value in _split(raw):
        if key == _ENTRY_NUMBER and isinstance(value, int):
            number = value
        elif key == _ENTRY_NAME and isinstance(value, bytes):
            name = escape_control_chars(value.decode("utf-8", "replace"))
    return number, name
