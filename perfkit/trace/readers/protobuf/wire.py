"""Splits protobuf messages into fields, for many messages at once.

The wire format: https://protobuf.dev/programming-guides/encoding. A field is a tag (number and wire type) and a value:
a varint (0), eight bytes (1), a length and bytes (2) or four bytes (5).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import Ints

VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
# Reads of a whole word at the last bytes stay inside of the buffer.
_PADDING = b"\0" * 16
# Below so many messages a loop over their bytes is faster than a round over arrays.
_FEW = 24
_LONGEST_VARINT = 10
_KNOWN_WIRES = np.isin(np.arange(8), (VARINT, EIGHT_BYTES, BYTES, FOUR_BYTES))


class WireBuffer(NamedTuple):
    """The bytes of messages, with padding behind the `size` that count.

    `words` is the word of eight bytes that begins at each byte.
    """

    data: bytes
    octets: NDArray[np.uint8]
    words: NDArray[np.uint64]
    size: int


class WireNumbers(NamedTuple):
    """Numbers that fields hold: `owner` is their message's position, as in `WireFields`."""

    owner: Ints
    value: Ints


class WireFields(NamedTuple):
    """Fields of messages, one row per field: the first field of each message, then the second of each, and so on.

    `owner` is the message's position among those that were split, `tag` the field's number and wire type (see
    `make_tag`), `value` a number or, of bytes, their length; `start` and `end` are the positions of bytes. Signed
    numbers of 64 bits are `value` as it is.
    """

    owner: Ints
    tag: Ints
    value: Ints
    start: Ints
    end: Ints

    def select_bytes(self, number: int) -> "WireFields":
        """The fields of a number that hold bytes, in their order in the file."""
        which = np.flatnonzero(self.tag == make_tag(number, BYTES))
        which = which[np.argsort(self.start[which], kind="stable")]
        return WireFields(*(column[which] for column in self))

    def select_numbers(self, number: int, wire: int = VARINT) -> WireNumbers:
        """The fields of a number that hold numbers."""
        which = np.flatnonzero(self.tag == make_tag(number, wire))
        return WireNumbers(self.owner[which], self.value[which])


class FieldPlace(NamedTuple):
    """A field of one message: its value (of bytes, their length) and the positions of its bytes."""

    number: int
    wire: int
    value: int
    start: int
    end: int


class RepeatedMessages(NamedTuple):
    """Messages of a repeated field, the other fields before and between them, and the position behind all.

    That is the end of the message if it is whole; one that does not move on is one of damaged or missing bytes.
    """

    starts: list[int]
    ends: list[int]
    others: list[FieldPlace]
    behind: int


def make_tag(number: int, wire: int) -> int:
    """The tag of a field."""
    return number << 3 | wire


def make_buffer(*blocks: bytes) -> WireBuffer:
    """A buffer of the bytes of messages, given as blocks."""
    padded = b"".join((*blocks, _PADDING))
    octets = np.frombuffer(padded, np.uint8)
    words = np.ndarray((len(padded) - 7,), np.dtype("<u8"), padded, strides=(1,))
    return WireBuffer(padded, octets, words, len(padded) - len(_PADDING))


def find_messages(
    buffer: WireBuffer, number: int, at: int, end: int, *, most: int | None = None, until: int | None = None
) -> RepeatedMessages:
    """Find the messages of a repeated field (its number below 16) of a message that ends at `end`, from a position on.

    At most `most`, and of those that begin before `until`.
    """
    data, tag = buffer.data, make_tag(number, BYTES)
    starts: list[int] = []
    ends: list[int] = []
    others: list[FieldPlace] = []
    add_start, add_end = starts.append, ends.append
    stop = end if until is None else until
    while at < stop and (most is None or len(starts) < most):
        if data[at] != tag:
            field = read_field(data, at, end)
            if field is None:
                break
            others.append(field)
            at = field.end
            continue
        length, begin = data[at + 1], at + 2
        if length >= 128:
            read = _read_varint(data, at + 1, end)
            if read is None:
                break
            length, begin = read
        finish = begin + length
        if not begin <= finish <= end:
            break
        add_start(begin)
        add_end(finish)
        at = finish
    return RepeatedMessages(starts, ends, others, at)


def split_messages(buffer: WireBuffer, starts: Ints, ends: Ints) -> tuple[WireFields, Ints]:
    """Split messages into fields; returns also which of them are damaged, of which no field is kept."""
    parts: list[tuple[Ints, ...]] = []
    damaged: list[Ints] = []
    owner = np.flatnonzero(starts < ends)
    at, end = starts[owner], ends[owner]
    while len(owner) > _FEW:
        tag, behind = decode_varints(buffer, at)
        wire = tag & 7
        value, start = decode_varints(buffer, behind)
        fixed = np.flatnonzero((wire == EIGHT_BYTES) | (wire == FOUR_BYTES))
        if len(fixed):
            words, eight = buffer.words[behind[fixed]].view(np.int64), wire[fixed] == EIGHT_BYTES
            value[fixed] = np.where(eight, words, words & 0xFFFFFFFF)
            start[fixed] = behind[fixed] + np.where(eight, 8, 4)
        finish = start + value * (wire == BYTES)
        good = (finish <= end) & (finish >= start) & (tag >= 8) & _KNOWN_WIRES[wire]
        row = (owner, tag, value, start, finish)
        if not good.all():
            damaged.append(owner[~good])
            row = tuple(column[good] for column in row)
            owner, finish, end = row[0], row[-1], end[good]
        parts.append(row)
        going = np.flatnonzero(finish < end)
        owner, at, end = owner[going], finish[going], end[going]
    few, bad = _split_few(buffer.data, owner.tolist(), at.tolist(), end.tolist())
    parts.append(few)
    fields = WireFields(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    wrong = np.unique(np.concatenate((*damaged, np.asarray(bad, np.int64))))
    if len(wrong):
        keep = ~np.isin(fields.owner, wrong)
        fields = WireFields(*(column[keep] for column in fields))
    return fields, wrong


def split_message(data: bytes) -> list[tuple[int, int, int | bytes]]:
    """The fields of one message: number, wire type and value. `ValueError` if it is damaged."""
    fields: list[tuple[int, int, int | bytes]] = []
    at, size = 0, len(data)
    while at < size:
        field = read_field(data, at, size)
        if field is None:
            raise ValueError("not a protobuf message")
        number, wire, value, start, at = field
        fields.append((number, wire, data[start:at] if wire == BYTES else value))
    return fields


def decode_varints(buffer: WireBuffer, at: Ints) -> tuple[Ints, Ints]:
    """The varints at these positions, and the positions behind them."""
    octet = buffer.octets[at].astype(np.int64)
    value, behind = octet & 127, at + 1
    more = np.flatnonzero(octet >= 128)
    shift = 7
    while len(more) and shift < 7 * _LONGEST_VARINT:
        position = np.minimum(behind[more], len(buffer.octets) - 1)
        octet = buffer.octets[position].astype(np.int64)
        value[more] |= (octet & 127) << shift
        behind[more] += 1
        more = more[octet >= 128]
        shift += 7
    behind[more] = len(buffer.octets)  # too long: behind everything
    return value, behind


def _split_few(data: bytes, owners: list[int], ats: list[int], ends: list[int]) -> tuple[tuple[Ints, ...], list[int]]:
    rows: list[tuple[int, int, int, int, int]] = []
    bad = []
    for owner, at, end in zip(owners, ats, ends, strict=True):
        while at < end:
            field = read_field(data, at, end)
            if field is None:
                bad.append(owner)
                break
            number, wire, value, start, at = field
            rows.append((owner, make_tag(number, wire), value, start, at))
    table = np.asarray(rows, np.int64).reshape(-1, 5)
    return tuple(table[:, column].copy() for column in range(5)), bad


def read_field(data: bytes, at: int, size: int) -> FieldPlace | None:
    """The field at a position of a message that ends at `size`; None if it is damaged."""
    tag = _read_varint(data, at, size)
    if tag is None or tag[0] < 8:
        return None
    number, wire, behind = tag[0] >> 3, tag[0] & 7, tag[1]
    if wire in (VARINT, BYTES):
        read = _read_varint(data, behind, size)
        if read is None:
            return None
        value, end = read
        if wire == VARINT:
            return FieldPlace(number, wire, value, behind, end)
        return FieldPlace(number, wire, value, end, end + value) if 0 <= value <= size - end else None
    if wire in (EIGHT_BYTES, FOUR_BYTES):
        end = behind + (8 if wire == EIGHT_BYTES else 4)
        if end > size:
            return None
        number_read = int.from_bytes(data[behind:end], "little", signed=wire == EIGHT_BYTES)
        return FieldPlace(number, wire, number_read, behind, end)
    return None


def _read_varint(data: bytes, at: int, size: int) -> tuple[int, int] | None:
    """The varint at a position, as a signed number of 64 bits, and the position behind it."""
    value = shift = 0
    while at < size and shift < 7 * _LONGEST_VARINT:
        octet = data[at]
        at += 1
        value |= (octet & 127) << shift
        if octet < 128:
            value &= (1 << 64) - 1
            return value - (1 << 64) if value >> 63 else value, at
        shift += 7
    return None
