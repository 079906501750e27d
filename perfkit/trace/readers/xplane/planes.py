"""Planes of an XSpace: a device or the host, with its lines, and the names that its events refer to.

Of tsl/profiler/protobuf/xplane.proto: a plane writes its lines before the names that they refer to.
"""

import struct
from dataclasses import dataclass, field

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.readers.protobuf.wire import (
    BYTES,
    EIGHT_BYTES,
    FieldPlace,
    WireBuffer,
    find_messages,
    split_message,
)

# Fields of XPlane, of the entries of its maps, of XEventMetadata and of XStatMetadata.
_NUMBER, _NAME, _LINE, _EVENT_NAMES, _STAT_NAMES, _STATS = 1, 2, 3, 4, 5, 6
_KEY, _VALUE = 1, 2
_EVENT_NAME, _DISPLAY_NAME, _EVENT_STATS = 2, 4, 5
_STAT_NAME = 2
# Fields of XStat.
STAT_NUMBER, DOUBLE, UNSIGNED, SIGNED, TEXT, REFERENCE = 1, 2, 3, 4, 5, 7

Statement = int | float | str


@dataclass(frozen=True)
class EventKind:
    """What events of one kind have in common: their name as it is shown and in full, and statements by name."""

    name: str = ""
    long_name: str = ""
    statements: dict[str, Statement] = field(default_factory=dict)


@dataclass(frozen=True)
class Plane:
    """A plane; `lines` has the beginning and end of each in the buffer."""

    number: int
    name: str
    lines: list[tuple[int, int]]
    kinds: dict[int, EventKind]
    stat_names: dict[int, str]
    statements: dict[str, Statement]
    is_whole: bool


def read_plane(buffer: WireBuffer, start: int, end: int) -> Plane:
    """Read a plane's names and statements; of a damaged one what stands before the damage."""
    starts, ends, others, behind = find_messages(buffer, _LINE, start, end)
    raw = buffer.data
    number = next((place.value for place in others if place.number == _NUMBER), 0)
    name = next((raw[place.start : place.end] for place in others if place.number == _NAME), b"")
    stat_names = {
        key: next((_text(part) for part_number, _, part in _split(value) if part_number == _STAT_NAME), "")
        for key, value in _list_entries(raw, others, _STAT_NAMES)
    }
    kinds = {key: _read_kind(value, stat_names) for key, value in _list_entries(raw, others, _EVENT_NAMES)}
    own = [raw[place.start : place.end] for place in others if place.number == _STATS and place.wire == BYTES]
    return Plane(
        number,
        _text(name),
        list(zip(starts, ends, strict=True)),
        kinds,
        stat_names,
        dict(statement for each in own if (statement := _read_statement(each, stat_names)) is not None),
        behind == end,
    )


def _list_entries(raw: bytes, places: list[FieldPlace], number: int) -> list[tuple[int, bytes]]:
    """The entries of a map of numbers to messages."""
    entries = []
    for place in places:
        if place.number == number and place.wire == BYTES:
            parts = {key: value for key, _, value in _split(raw[place.start : place.end])}
            key, value = parts.get(_KEY, 0), parts.get(_VALUE, b"")
            if isinstance(key, int) and isinstance(value, bytes):
                entries.append((key, value))
    return entries


def _read_kind(raw: bytes, stat_names: dict[int, str]) -> EventKind:
    name = shown = ""
    statements = {}
    for number, _, value in _split(raw):
        if number == _EVENT_NAME:
            name = _text(value)
        elif number == _DISPLAY_NAME:
            shown = _text(value)
        elif number == _EVENT_STATS and isinstance(value, bytes):
            statement = _read_statement(value, stat_names)
            if statement is not None:
                statements[statement[0]] = statement[1]
    return EventKind(shown or name, name, statements)


def _read_statement(raw: bytes, stat_names: dict[int, str]) -> tuple[str, Statement] | None:
    """The name and value of an XStat; None of one without, or with a value that nothing here uses."""
    name = ""
    found: Statement | None = None
    for number, wire, value in _split(raw):
        if isinstance(value, bytes):
            found = _text(value) if number == TEXT else found
        elif number == STAT_NUMBER:
            name = stat_names.get(value, "")
        elif number == DOUBLE and wire == EIGHT_BYTES:
            found = float(struct.unpack("<d", struct.pack("<q", value))[0])
        elif number == REFERENCE:
            found = stat_names.get(value, "")
        elif number in (UNSIGNED, SIGNED):
            found = value
    return None if found is None or not name else (name, found)


def _split(raw: int | bytes) -> list[tuple[int, int, int | bytes]]:
    try:
        return split_message(raw) if isinstance(raw, bytes) else []
    except ValueError:
        return []


def _text(value: int | bytes) -> str:
    return escape_control_chars(value.decode("utf-8", "replace")) if isinstance(value, bytes) else ""
