"""Debug annotations: the arguments of a slice, as JSON.

Of `DebugAnnotation` in protos/perfetto/trace/track_event/debug_annotation.proto.
"""

import math
import struct
from typing import Any

import msgspec

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.readers.pftrace.interned import ANNOTATION_NAMES, STRING_VALUES, InternedTables
from perfkit.trace.readers.protobuf.wire import EIGHT_BYTES, split_message

NAME_NUMBER, UNSIGNED, SIGNED, NAME = 1, 3, 4, 10
_BOOL, _DOUBLE, _STRING, _POINTER, _JSON, _MEMBERS, _ELEMENTS, _STRING_NUMBER = 2, 5, 6, 7, 9, 11, 12, 17
# Deeper lists are no shapes.
_DEEPEST = 16


class AnnotationTable:
    """The name and JSON of annotations by their bytes: most are written again and again."""

    def __init__(self, interned: InternedTables) -> None:
        self._interned = interned
        self._known: dict[tuple[int, bytes], tuple[str, bytes]] = {}

    def read(self, state: int, raw: bytes) -> tuple[str, bytes]:
        """The name and the JSON of an annotation; both are empty where it is damaged."""
        key = (state, raw)
        known = self._known.get(key)
        if known is None:
            try:
                name, value = self._decode(state, raw, _DEEPEST)
                known = name, msgspec.json.encode(value)
            except ValueError:
                known = "", b""
            self._known[key] = known
        return known

    def _decode(self, state: int, raw: bytes, depth: int) -> tuple[str, Any]:
        if not depth:
            raise ValueError("too deep")
        name = ""
        value: Any = None
        elements: list[Any] = []
        members: dict[str, Any] = {}
        is_list = is_dict = False
        strings, names = self._interned.names[STRING_VALUES], self._interned.names[ANNOTATION_NAMES]
        for number, wire, content in split_message(raw):
            if isinstance(content, bytes):
                if number == NAME:
                    name = _text(content)
                elif number == _STRING:
                    value = _text(content)
                elif number == _JSON:
                    value = msgspec.json.decode(content)
                elif number == _ELEMENTS:
                    elements.append(self._decode(state, content, depth - 1)[1])
                    is_list = True
                elif number == _MEMBERS:
                    key, member = self._decode(state, content, depth - 1)
                    members[key] = member
                    is_dict = True
            elif number == NAME_NUMBER:
                name = names.get((state, content), "")
            elif number == _STRING_NUMBER:
                value = strings.get((state, content), "")
            elif number == _BOOL:
                value = bool(content)
            elif number in (UNSIGNED, _POINTER):
                value = content % (1 << 64)
            elif number == SIGNED:
                value = content
            elif number == _DOUBLE and wire == EIGHT_BYTES:
                value = _double(content)
        if is_list:
            return name, elements
        if is_dict:
            return name, members
        # An annotation without a value stands for an empty list.
        return name, [] if value is None else value


def _text(content: bytes) -> str:
    return escape_control_chars(content.decode("utf-8", "replace"))


def _double(content: int) -> float | None:
    value = float(struct.unpack("<d", struct.pack("<q", content))[0])
    return value if math.isfinite(value) else None
