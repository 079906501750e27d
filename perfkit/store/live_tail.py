"""Tails a live log: new lines since a position, and whether its process still runs."""

import socket
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from perfkit.core.errors import RunFormatError
from perfkit.store.live import LiveEvent, LiveLine, LiveStart, LiveWindow, read_line

SILENT_S = 30.0  # a log that has not grown for so long is silent
CHUNK_BYTES = 1 << 20  # the most that is read at once
_END_BYTES = 1 << 16
_CLOCK_S = 2.0  # by how much a process may seem younger than the line that it wrote


@dataclass(frozen=True)
class LogChunk:
    """Complete lines from byte `since` on; the next ones begin at byte `next`. `more` says that some already exist."""

    since: int
    next: int
    more: bool
    lines: tuple[LiveLine, ...]


def read_since(path: Path, since: int, most_bytes: int = CHUNK_BYTES) -> LogChunk:
    """The lines that begin at byte `since`, of at most `most_bytes` in all.

    A log that is shorter than `since` is another one and is read from its beginning. A line that is not valid, or
    longer than `most_bytes`, is a `RunFormatError`.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        since = since if 0 <= since <= size else 0
        file.seek(since)
        data = file.read(most_bytes)
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and len(data) == most_bytes:
        raise RunFormatError(f"{path}, byte {since}: a line longer than {most_bytes:,} bytes; is it a live log?")
    end = since + len(whole)
    return LogChunk(since, end, len(data) == most_bytes and end < size, _decode_lines(path, since, whole))


def _decode_lines(path: Path, offset: int, data: bytes) -> tuple[LiveLine, ...]:
    return tuple(read_line(line, f"{path}, after byte {offset}") for line in data.splitlines())


@dataclass(frozen=True)
class LogEnd:
    """The end of a log: its latest start, the latest window, the `end` event if it is the last line, and the time it
    last grew (seconds since 1970)."""

    start: LiveStart | None
    window: LiveWindow | None
    end: LiveEvent | None
    changed_s: float

    def is_running(self, now: float | None = None) -> bool:
        """True if its process still runs: the log has no end, and grew recently or the process is alive here."""
        if self.end is not None:
            return False
        now = time.time() if now is None else now
        return now - self.changed_s < SILENT_S or (self.start is not None and _is_alive(self.start))


def read_log_end(path: Path) -> LogEnd:
    """Read the first line and the last few lines of a log of any length."""
    with path.open("rb") as file:
        first = file.readline(_END_BYTES)
        size = file.seek(0, 2)
        begin = max(len(first), size - _END_BYTES)
        file.seek(begin)
        data = file.read(size - begin)
    if begin > len(first):
        data = data[data.find(b"\n") + 1 :]  # the line that the middle of was hit
    data = (first if first.endswith(b"\n") else b"") + data[: data.rfind(b"\n") + 1]
    lines = _decode_lines(path, 0, data)
    starts = [line for line in lines if isinstance(line, LiveStart)]
    windows = [line for line in lines if isinstance(line, LiveWindow)]
    last = lines[-1] if lines else None
    return LogEnd(
        start=starts[-1] if starts else None,
        window=windows[-1] if windows else None,
        end=last if isinstance(last, LiveEvent) and last.kind == "end" else None,
        changed_s=path.stat().st_mtime,
    )


def _is_alive(start: LiveStart) -> bool:
    """True if the process that wrote `start` lives on this host. One that began later has only its number."""
    if start.hostname != socket.gethostname():
        return False
    try:
        process = psutil.Process(start.pid)
        return process.create_time() <= start.time_s + _CLOCK_S and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
