"""Loads pickles of plain data (containers, numbers, strings), without running code."""

import copyreg
import io
import pickle
import zlib
from typing import Any, BinaryIO, NoReturn, cast

from isal import igzip

from perfkit.core.address_space import limit_address_space
from perfkit.core.deep_stack import call_on_deep_stack
from perfkit.core.errors import RunFormatError
from perfkit.core.text_blocks import BLOCK_BYTES, GzipError, ReadLimits
from perfkit.trace.readers.kineto.kineto import pause_gc
from perfkit.trace.readers.trace_sources import open_source

GZIP = b"\x1f\x8b"
_LONGEST_NAME = 80
# What a pickle may take up: one byte of it makes at most an empty list or dictionary, of 56 or 64 bytes.
_BYTES_PER_BYTE = 64
_BYTES_ANYWAY = 512 << 20
# A tuple is made by one byte, and hashing it as a key takes 80 bytes of the C stack for each that it is nested in
# (CPython 3.11, x86-64).
_STACK_PER_BYTE = 256

_DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    OSError,
    zlib.error,
    GzipError,
)


def load_plain_pickle(path: str, what: str = "memory snapshot") -> object:
    """Load a pickle, plain or gzip, of plain data: dictionaries, lists, tuples, sets, numbers, strings, bytes, None.

    Messages call it a `what`. `RunFormatError` for a pickle that names anything else, before that is even looked up:
    globals, persistent ids, registered extensions and out-of-band buffers are refused, so no code of the file's choice
    runs. So are damaged files, and such as declare more bytes than there are or would take more memory than a file of
    that size can need. Tuples may be nested as keys as deep as a quarter of the free memory has room for the stack that
    hashing them takes (80 bytes a level, of which a byte of the file can make one). What is not bounded: the time a
    hostile file takes (keys chosen to collide), and tuples nested deeper still; such a file can stop this process, not
    run anything in it.
    """
    file, file_bytes = open_source(path)
    with file:
        # The unpickler takes an extension's object from this cache without asking; it is filled again when needed.
        copyreg._extension_cache.clear()  # type: ignore[attr-defined]
        try:
            text = _BoundedFile(file, path, file_bytes)
            return call_on_deep_stack(lambda: _load_text(text, path, what), _STACK_PER_BYTE * text.size)
        except MemoryError:
            raise RunFormatError(
                f"{path}: needs more memory than is available, or than a {what} of {file_bytes} bytes can need; "
                "it is damaged or malicious"
            ) from None
        except _DAMAGE as error:
            raise RunFormatError(
                f"{path}: not a whole pickle ({_format_line(error)}); record the {what} again"
            ) from None


def _load_text(text: "_BoundedFile", path: str, what: str) -> object:
    with pause_gc(), limit_address_space(_BYTES_ANYWAY + _BYTES_PER_BYTE * text.size):
        return _PlainUnpickler(text, path, what).load()


class _PlainUnpickler(pickle.Unpickler):
    def __init__(self, file: "_BoundedFile", label: str, what: str) -> None:
        super().__init__(cast(BinaryIO, file), encoding="utf-8")
        self._label, self._what = label, what

    def find_class(self, module: str, name: str) -> NoReturn:
        self._refuse(f"{module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        self._refuse("an object stored elsewhere")

    def _refuse(self, what: str) -> NoReturn:
        raise RunFormatError(
            f"{self._label}: needs {_format_line(what)}, but a {self._what} contains plain data only: it is a "
            "different kind of pickle or malicious; none of its code was run"
        )


class _BoundedFile:
    """The text of a file for the unpickler, of `size` bytes: never asked for more bytes than it has."""

    def __init__(self, file: BinaryIO, label: str, file_bytes: int) -> None:
        self._label = label
        zipped = file.read(len(GZIP)) == GZIP
        file.seek(0)
        if zipped:
            # Read twice: what the unpickler may take up depends on the length, which a packed file does not tell.
            self.size = _measure_length(_open_gzip(file), label, ReadLimits().compute_allowed_bytes(file_bytes))
            file.seek(0)
        else:
            self.size = file_bytes
        self._left = self.size
        plain: Any = _open_gzip(file) if zipped else file
        self._file: io.BufferedReader[Any] = io.BufferedReader(plain, BLOCK_BYTES)

    def read(self, size: int) -> bytes:
        if size > self._left:
            raise RunFormatError(
                f"{self._label}: declares {size} bytes where {self._left} can follow; it is truncated, damaged or "
                "malicious"
            )
        self._left -= size
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(self._left)
        self._left -= len(line)
        return line

    def peek(self, size: int) -> bytes:
        return self._file.peek(size)[: self._left]


def _open_gzip(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, igzip.IGzipFile(fileobj=file))  # type: ignore[no-untyped-call]


def _measure_length(text: BinaryIO, label: str, most: int) -> int:
    """Measure the length in bytes; `RunFormatError` above `most`."""
    length = 0
    while block := text.read(BLOCK_BYTES):
        length += len(block)
        if length > most:
            raise RunFormatError(f"{label}: unpacks to more than {most} bytes; it is damaged or malicious")
    return length


def _format_line(what: object) -> str:
    """Format any content of a file for one line of a message."""
    text = " ".join(ascii(str(what))[1:-1].split())
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
