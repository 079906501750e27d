"""A helper process that decodes pieces of a trace: `python -m perfkit.trace.readers.kineto.helper NAMES`.

It reads pieces from standard input and writes pickled parts (or None for what is not whole events) to standard output,
each after its length in 8 bytes. Only its parent talks to it, so what it pickles can be trusted.
"""

import pickle
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import IO

from perfkit.trace.readers.event_table.piece_columns import PieceColumns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.kineto.event_columns import ColumnBuilder
from perfkit.trace.readers.kineto.kineto import pause_gc

_LENGTH_BYTES = 8


class DecodingHelper:
    """The parent's end: pieces are processed one at a time, in order."""

    def __init__(self, names: int) -> None:
        command = [sys.executable, "-m", "perfkit.trace.readers.kineto.helper", str(names)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._thread = ThreadPoolExecutor(1)

    def submit_piece(self, piece: bytes) -> "Future[PieceColumns | None]":
        """The part that becomes of a piece; None if it is not whole events or the process has ended."""
        return self._thread.submit(self._exchange_piece, piece)

    def close(self) -> None:
        """End the process, dropping pieces that it has not begun."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        with suppress(OSError):  # data that an ended process did not read
            self._process.communicate()

    def _exchange_piece(self, piece: bytes) -> PieceColumns | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _write_message(self._process.stdin, piece)
        except OSError:
            return None
        answer = _read_message(self._process.stdout)
        part: PieceColumns | None = pickle.loads(answer) if answer else None
        return part


def _write_message(stream: IO[bytes], data: bytes) -> None:
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
    stream.write(data)
    stream.flush()


def _read_message(stream: IO[bytes]) -> bytes:
    return stream.read(int.from_bytes(stream.read(_LENGTH_BYTES), "big"))


def main() -> None:
    """Decode until there is nothing more to read."""
    builder = ColumnBuilder(TraceTables(int(sys.argv[1])))
    with pause_gc():
        while piece := _read_message(sys.stdin.buffer):
            _write_message(sys.stdout.buffer, pickle.dumps(builder.add(piece), protocol=5))


if __name__ == "__main__":
    main()
