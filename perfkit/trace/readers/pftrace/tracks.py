"""Tracks of Perfetto's traces: the process and thread of each."""

from typing import NamedTuple

import msgspec

from perfkit.core.sanitize import escape_control_chars
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.protobuf.wire import split_message

# Fields of TrackDescriptor, of ProcessDescriptor and of ThreadDescriptor.
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _STATIC_NAME = 1, 2, 3, 4, 5, 10
_PID, _PROCESS_NAME = 1, 6
_TID, _THREAD_NAME = 2, 5
# No descriptor names more ancestors; a longer chain is a circle.
_DEEPEST = 16


class Track(NamedTuple):
    """A track, as its descriptor states it: numbers are NONE, names empty where it does not."""

    name: str
    parent: int
    process: int | None
    process_name: str
    thread: int | None
    thread_name: str


class Tracks(dict[int, Track]):
    """Tracks by their number."""

    def add(self, raw: bytes) -> None:
        """Take a descriptor; a later one of the same track fills in what the first left out."""
        try:
            fields = split_message(raw)
            parts = {
                key: split_message(value)
                for key, _, value in fields
                if key in (_PROCESS, _THREAD) and isinstance(value, bytes)
            }
        except ValueError:
            return
        own = {key: value for key, _, value in fields}
        process = {key: value for key, _, value in parts.get(_PROCESS, [])}
        thread = {key: value for key, _, value in parts.get(_THREAD, [])}
        number = own.get(_UUID, 0)
        if not isinstance(number, int):
            return
        track = Track(
            _text(own.get(_NAME)) or _text(own.get(_STATIC_NAME)),
            _number(own.get(_PARENT)) or 0,
            _number(process.get(_PID, thread.get(_PID))),
            _text(process.get(_PROCESS_NAME)),
            _number(thread.get(_TID)),
            _text(thread.get(_THREAD_NAME)),
        )
        known = self.get(number)
        if known is not None:
            track = known._replace(
                **{key: value for key, value in track._asdict().items() if value not in ("", None, 0)}
            )
        self[number] = track

    def find_thread(self, number: int) -> tuple[str, str]:
        """The process and thread of a track: its own or an ancestor's; one that has none stands for a thread."""
        process, thread, at = None, None, number
        for _ in range(_DEEPEST):
            track = self.get(at)
            if track is None:
                break
            process = track.process if process is None else process
            thread = track.thread if thread is None else thread
            at = track.parent
        own = self.get(number)
        label = "" if own is None else own.name
        return "" if process is None else str(process), str(thread) if thread is not None else label or str(number)

    def find_name(self, number: int) -> str:
        """The name of a track itself."""
        track = self.get(number)
        return (track.name if track is not None else "") or f"track {number}"

    def state_names(self, tables: TraceTables) -> list[tuple[int, str, bytes]]:
        """What they state of processes and threads, as Chrome's format does: thread, kind and JSON."""
        stated = []
        for number, track in self.items():
            thread = tables.thread[self.find_thread(number)]
            if track.process_name:
                stated.append((thread, "process_name", msgspec.json.encode(track.process_name)))
            if track.thread_name or (track.name and track.process is None):
                stated.append((thread, "thread_name", msgspec.json.encode(track.thread_name or track.name)))
        return stated


def _number(value: int | bytes | None) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: int | bytes | None) -> str:
    return escape_control_chars(value.decode("utf-8", "replace")) if isinstance(value, bytes) else ""
