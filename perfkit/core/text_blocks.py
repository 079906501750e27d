"""Reads the text of a trace file in blocks, decompressed by content, not by name."""

import codecs
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import BinaryIO, cast

import zstandard
from isal import igzip_lib

from perfkit.core import units
from perfkit.core.errors import RunFormatError

# The fastest size on a CPU with some MB of cache: a block, its events and its columns stay in it.
BLOCK_BYTES = 1 << 20
_READ_BYTES = 1 << 18
_SALVAGE_BYTES = 1 << 12

# The stubs take the class for an instance of it.
GzipError: type[Exception] = igzip_lib.error  # type: ignore[assignment]

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_FOREIGN = {b"PK\x03\x04": "a zip archive", b"\xfd7zXZ": "an xz file", b"BZh": "a bzip2 file"}
_MARKS = (
    (codecs.BOM_UTF8, ""),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Traces shrink by 10 to 30 times, very repetitive ones by 100; a bomb by up to 1000.
_USUAL_JSON_BYTES = 16 << 30
_SMALL_JSON_BYTES = 512 << 20
_USUAL_RATIO = 250


@dataclass(frozen=True)
class ReadLimits:
    """Limits on reading a trace.

    Attributes:
        json_bytes: of decompressed text. By default 16 GiB, and no more than 250 times the file's size once it exceeds
            512 MiB.
        names: distinct names, and distinct signatures, that are kept apart; what comes after them is counted together.
        seconds: of reading, after which the rest of the text is left out.
    """

    json_bytes: int | None = None
    names: int = 4_000_000
    seconds: float = math.inf

    def compute_allowed_bytes(self, file_bytes: int) -> int:
        """Bytes of text that a file of this size may hold; 0 is a size that is not known."""
        if self.json_bytes is not None:
            return self.json_bytes
        if not file_bytes:
            return _USUAL_JSON_BYTES
        return min(_USUAL_JSON_BYTES, max(_SMALL_JSON_BYTES, _USUAL_RATIO * file_bytes))


class TextBlocks:
    """Iterates over the text of `file` in blocks of UTF-8.

    After the last one `damage` says why it was the last, where that was not the file's proper end, and `encoding`
    names an encoding that is not plain UTF-8. `RunFormatError` if the file cannot be read or exceeds the limit.
    """

    def __init__(self, file: BinaryIO, label: str, file_bytes: int, limits: ReadLimits) -> None:
        self.damage = ""
        self.ended = False
        self.encoding = ""
        self.json_bytes = 0
        self._file, self._label, self._file_bytes = file, label, file_bytes
        self._allowed = limits.compute_allowed_bytes(file_bytes)
        self._seconds = limits.seconds
        self._blocks = self._decode_blocks()
        self._first: bytes | None = None

    def peek(self) -> bytes:
        """The first block, which the iteration begins with all the same."""
        if self._first is None:
            self._first = next(self._blocks, b"")
        return self._first

    def __iter__(self) -> Iterator[bytes]:
        yield self.peek()
        yield from self._blocks

    def _decode_blocks(self) -> Iterator[bytes]:
        blocks = self._decompress_blocks()
        first = next(blocks, b"")
        mark, encoding = next(((mark, name) for mark, name in _MARKS if first.startswith(mark)), (b"", ""))
        if not mark and first[1:2] == b"\0":
            encoding = "utf-16-le"
        if mark:
            self.encoding = encoding or "UTF-8 with a byte-order mark"
        first = first[len(mark) :]
        if not encoding:
            yield first
            yield from blocks
            return
        self.encoding = encoding
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        yield decoder.decode(first).encode(errors="replace")
        for block in blocks:
            yield decoder.decode(block).encode(errors="replace")

    def _decompress_blocks(self) -> Iterator[bytes]:
        head = self._read_bytes(_READ_BYTES)
        for magic, kind in _FOREIGN.items():
            if head.startswith(magic):
                raise RunFormatError(
                    f"{self._label}: {kind}, not a trace: unpack it first (gzip and zstd are read as is)"
                )
        if head.startswith(_GZIP):
            blocks = self._read_gzip(head)
        elif head.startswith(_ZSTD):
            blocks = self._read_zstd(head)
        else:
            blocks = self._read_plain(head)
        end_s = monotonic() + self._seconds
        for block in blocks:
            if monotonic() > end_s:
                self.ended = True
                self.damage = f"reading stopped after {units.format_seconds(self._seconds)} (--time-limit)"
                return
            self.json_bytes += len(block)
            if self.json_bytes > self._allowed:
                raise RunFormatError(
                    f"{self._label}: more than {self._allowed} bytes of text in a file of {self._file_bytes} bytes; "
                    "if it is a trace, raise the limit with --max-bytes"
                )
            yield block

    def _read_bytes(self, size: int) -> bytes:
        try:
            return self._file.read(size)
        except OSError as error:
            reason = error.strerror or error
            raise RunFormatError(f"{self._label}: cannot be read after {self.json_bytes} bytes ({reason})") from None

    def _read_plain(self, data: bytes) -> Iterator[bytes]:
        while data:
            yield data
            data = self._read_bytes(BLOCK_BYTES)

    def _read_gzip(self, data: bytes) -> Iterator[bytes]:
        while data.startswith(_GZIP):  # a file may consist of several members
            member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            while not member.eof:
                try:
                    block = member.decompress(data, BLOCK_BYTES)
                except GzipError as error:
                    self.damage = f"the gzip data is damaged ({error})"
                    if not self.json_bytes:
                        yield from _salvage_gzip(data)
                    return
                if block:
                    yield block
                data = b""
                if member.needs_input and not member.eof:
                    data = self._read_bytes(_READ_BYTES)
                    if not data:
                        self.damage = "the gzip data ends too early"
                        return
            data = member.unused_data.lstrip(b"\0") or self._read_bytes(_READ_BYTES).lstrip(b"\0")

    def _read_zstd(self, data: bytes) -> Iterator[bytes]:
        source = cast(BinaryIO, _PrefixedFile(data, self._read_bytes))
        reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
        while True:
            try:
                block = reader.read(BLOCK_BYTES)
            except zstandard.ZstdError as error:
                self.damage = f"the zstd data is damaged ({error})"
                return
            if not block:
                return
            yield block


def _salvage_gzip(data: bytes) -> Iterator[bytes]:
    """The text before the damage in the first block of a gzip member, which isal drops."""
    member, size = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16), _SALVAGE_BYTES
    while size and data and not member.eof:
        before = member.copy()  # an error loses the data that the call had decompressed
        try:
            yield member.decompress(data, size)
            data = member.unconsumed_tail
        except zlib.error:
            member, size = before, size // 2


class _PrefixedFile:
    """A file whose first bytes have been read already."""

    def __init__(self, head: bytes, read: Callable[[int], bytes]) -> None:
        self._head, self._more = head, read

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        return head or self._more(size)
