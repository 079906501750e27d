"""Appending to the log of a watched run."""

import os
from pathlib import Path

import msgspec

from perfkit.core.errors import PerfkitError
from perfkit.core.files import NO_FOLLOW
from perfkit.store.live import LiveLine


class LiveLog:
    """Appends lines to `path`, each in one write, so that a reader or a kill finds whole lines but for the last.

    A line that an earlier process was killed in is taken off first. A disk that is full or a folder that cannot be
    written is a `PerfkitError`.
    """

    def __init__(self, path: Path, growth_bytes: int) -> None:
        self._path = path
        self._growth_bytes = growth_bytes
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | NO_FOLLOW, 0o644)
            self._size = self._drop_cut_line()
        except OSError as error:
            raise self._make_error(error) from None

    @property
    def stretch(self) -> int:
        """The factor on the requested time between lines: doubled with every `growth_bytes`.

        So each further `growth_bytes` last twice as long as those before: the log grows by the logarithm of time.
        """
        return 1 << (self._size // self._growth_bytes)

    def write(self, line: LiveLine) -> None:
        data = msgspec.json.encode(line) + b"\n"
        try:
            written = os.write(self._file, data)
        except OSError as error:
            raise self._make_error(error) from None
        self._size += written
        if written < len(data):
            raise PerfkitError(f"{self._path}: the disk is full; the lines before are intact")

    def close(self) -> None:
        """Once and again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _drop_cut_line(self) -> int:
        """The size up to the last whole line, to which the file is cut."""
        size = os.fstat(self._file).st_size
        whole = size
        while whole and os.pread(self._file, 1, whole - 1) != b"\n":
            whole -= 1
        if whole < size:
            os.ftruncate(self._file, whole)
        return whole

    def _make_error(self, error: OSError) -> PerfkitError:
        return PerfkitError(f"{self._path}: cannot be written ({error.strerror}); what was written before is intact")
