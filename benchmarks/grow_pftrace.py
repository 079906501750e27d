"""Grows a trace of Perfetto's format as `grow_trace.py` grows JSON: its packets again, later and with ids of their own.

    python benchmarks/grow_pftrace.py TRACE --mb 100 --out grown.pftrace

Names and tracks are written once, as torch's encoder does; all begins of slices come before their ends in each copy.
"""

import argparse
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

from perfkit.trace.readers.protobuf.wire import BYTES, VARINT, find_messages, make_buffer, split_message

_TIME, _TRACK_EVENT, _GPU_COUNTERS, _RENDER_STAGE = 8, 11, 52, 53
_AGAIN = (_TRACK_EVENT, _GPU_COUNTERS, _RENDER_STAGE)
_ANNOTATION, _ANNOTATION_NAME, _ANNOTATION_VALUES, _EXTRA = 4, 10, (3, 4), 6
_LINKS = {b"External id", b"Record function id", b"Ev Idx", b"correlation", b"Sequence number"}
_STEP = 1_000_000  # nanoseconds between two copies


def encode_varint(number: int) -> bytes:
    """A varint; negative numbers have 64 bits."""
    number &= (1 << 64) - 1
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    return bytes((*octets, number))


def encode_field(number: int, value: int | bytes) -> bytes:
    """A field of a number or of bytes."""
    if isinstance(value, int):
        return encode_varint(number << 3 | VARINT) + encode_varint(value)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


def grow(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of a trace until they amount to `size` bytes."""
    starts, ends, _, _ = find_messages(make_buffer(data), 1, 0, len(data))
    packets = [split_message(data[start:end]) for start, end in zip(starts, ends, strict=True)]
    again: list[list[Callable[[int, int], bytes]]] = []
    ids, times = [0], []
    for start, end, packet in zip(starts, ends, packets, strict=True):
        if any(number in _AGAIN for number, _, _ in packet):
            again.append([_shift_field(number, value, ids) for number, _, value in packet])
            times += [value for number, _, value in packet if number == _TIME and isinstance(value, int)]
        else:
            yield encode_field(1, data[start:end])
    period, most = max(times) - min(times) + _STEP, max(ids) + 1
    copy = written = 0
    while written < size:
        for packet in again:
            text = b"".join(part(copy * period, copy * most) for part in packet)
            piece = encode_field(1, text)
            written += len(piece)
            yield piece
        copy += 1


def _shift_field(number: int, value: int | bytes, ids: list[int]) -> Callable[[int, int], bytes]:
    """A packet's field by the shifts of time and of ids."""
    if isinstance(value, int):
        if number == _TIME:
            return lambda time, _: encode_field(number, value + time)
        raw = encode_field(number, value)
        return lambda *_: raw
    if number not in (_TRACK_EVENT, _RENDER_STAGE):
        raw = encode_field(number, value)
        return lambda *_: raw
    parts = [_shift_part(number, key, part, raw, ids) for key, part, raw in _list_fields(value)]
    if all(isinstance(part, bytes) for part in parts):
        raw = encode_field(number, value)
        return lambda *_: raw
    return lambda _, shift: encode_field(
        number, b"".join(part if isinstance(part, bytes) else part(shift) for part in parts)
    )


def _shift_part(kind: int, key: int, part: int | bytes, raw: bytes, ids: list[int]) -> bytes | Callable[[int], bytes]:
    if not isinstance(part, bytes):
        return raw
    if kind == _TRACK_EVENT and key == _ANNOTATION:
        inner = {number: value for number, _, value in split_message(part)}
        value = next((inner[each] for each in _ANNOTATION_VALUES if each in inner), None)
        if inner.get(_ANNOTATION_NAME) in _LINKS and isinstance(value, int) and value > 0:
            ids.append(value)
            name = encode_field(_ANNOTATION_NAME, bytes(inner[_ANNOTATION_NAME]))  # type: ignore[arg-type]
            field = next(each for each in _ANNOTATION_VALUES if each in inner)
            return lambda shift: encode_field(key, name + encode_field(field, value + shift))
    if kind == _RENDER_STAGE and key == _EXTRA:
        inner = {number: value for number, _, value in split_message(part)}
        if inner.get(1) in _LINKS and bytes(inner.get(2, b"")).isdigit():  # type: ignore[arg-type]
            number = int(bytes(inner[2]))  # type: ignore[arg-type]
            ids.append(number)
            name = encode_field(1, bytes(inner[1]))  # type: ignore[arg-type]
            return lambda shift: encode_field(key, name + encode_field(2, str(number + shift).encode()))
    return raw


def _list_fields(message: bytes) -> Iterator[tuple[int, int | bytes, bytes]]:
    for number, wire, value in split_message(message):
        if wire in (VARINT, BYTES):
            yield number, value, encode_field(number, value)
        else:
            size = 8 if wire == 1 else 4
            raw = int(value).to_bytes(size, "little", signed=wire == 1)
            yield number, value, encode_varint(number << 3 | wire) + raw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", type=Path)
    parser.add_argument("--mb", type=float, required=True, help="size, in 1e6 bytes")
    parser.add_argument("--out", type=Path, required=True, help="a .pftrace, gzipped as torch writes it")
    options = parser.parse_args()
    with gzip.open(options.trace) as file:
        data = file.read()
    with gzip.open(options.out, "wb", compresslevel=1) as out:
        for piece in grow(data, int(options.mb * 1e6)):
            out.write(piece)


if __name__ == "__main__":
    main()
