"""Writes a trace file with more events ahead of its own, gzipped, whole or not at all.

The text of a file of JSON events stays unchanged otherwise: flows, metadata and all.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, cast

from isal import igzip

from perfkit.core.errors import PerfkitError, RunFormatError, UsageError
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.trace.readers.kineto.event_splitter import find_events_begin
from perfkit.trace.readers.trace_sources import open_source

_BLANK = b" \n\r\t"
_AT_ONCE = 4096  # events that are compressed together


def write_spliced_trace(source: str, events: Iterable[bytes], path: Path, limits: ReadLimits) -> None:
    """Write the trace, a file of JSON events, with more `events` (JSON each).

    `RunFormatError` where the file cannot be read, `PerfkitError` where it cannot be written. A file that begins with
    the first of `events` has such already: a `UsageError`.
    """
    file, file_bytes = open_source(source)
    with file, _write_gzip(path) as out:
        blocks = iter(TextBlocks(file, source, file_bytes, limits))
        head, rest = _read_head(source, blocks)
        more = _read_first_event(rest, blocks)
        first, events = _peek_first_event(events)
        if first and more.startswith(first):
            raise UsageError(f"{source}: already an export of perfkit; export the original trace instead")
        out.write(head)
        for some in _join_events(events):
            out.write(some)
        out.write((b"" if more.startswith(b"]") or not more else b",") + more)
        for block in blocks:
            out.write(block)


def write_events(head: bytes, events: Iterable[bytes], path: Path) -> None:
    """Write a trace of JSON events from its `head`, which ends with the bracket of their list.

    `PerfkitError` where it cannot be written.
    """
    with _write_gzip(path) as out:
        out.write(head)
        for some in _join_events(events):
            out.write(some)
        out.write(b"]}")


@contextmanager
def _write_gzip(path: Path) -> Iterator[BinaryIO]:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as new, _open_gzip(new) as out:
            yield out
        temporary.replace(path)
    except OSError as error:
        raise PerfkitError(f"{path}: cannot be written ({error.strerror})") from None
    finally:
        temporary.unlink(missing_ok=True)


def _open_gzip(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, igzip.open(file, "wb", compresslevel=2))  # type: ignore[no-untyped-call]


def _read_head(source: str, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Read the text up to and including the bracket of the event list, and the text read after it."""
    text = b""
    for block in blocks:
        text += block
        at = find_events_begin(text)
        if at is not None:
            return text[:at], text[at:]
    raise RunFormatError(
        f"{source}: contains no list of events in JSON, which an export for Perfetto adds to: export a trace in JSON"
    )


def _read_first_event(rest: bytes, blocks: Iterator[bytes]) -> bytes:
    """Read from the first non-blank character after the bracket."""
    rest = rest.lstrip(_BLANK)
    while not rest:
        block = next(blocks, None)
        if block is None:
            return b""
        rest = block.lstrip(_BLANK)
    return rest


def _peek_first_event(events: Iterable[bytes]) -> tuple[bytes, Iterable[bytes]]:
    """The first event, empty without one, and all text read so far."""
    remaining = iter(events)
    first = list(islice(remaining, 1))
    return b"".join(first), chain(first, remaining)


def _join_events(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events with commas between them, many at once."""
    waiting: list[bytes] = []
    begun = False
    for event in events:
        waiting.append(event)
        if len(waiting) == _AT_ONCE:
            yield (b",\n" if begun else b"\n") + b",\n".join(waiting)
            waiting, begun = [], True
    if waiting:
        yield (b",\n" if begun else b"\n") + b",\n".join(waiting)
