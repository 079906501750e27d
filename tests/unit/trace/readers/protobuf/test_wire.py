"""Fields of many messages at once are those that a reader of one message finds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.trace.readers.protobuf.wire import BYTES, VARINT, find_messages, make_buffer, split_message, split_messages
from tests.fixtures.protobuf import encode, encode_trace, encode_varint

NUMBERS = st.integers(1, 1 << 20)
VALUES = st.one_of(st.integers(0, (1 << 64) - 1), st.floats(allow_nan=False), st.binary(max_size=200))
MESSAGES = st.lists(st.lists(st.tuples(NUMBERS, VALUES), max_size=6), max_size=60)


def split(messages: list[bytes]) -> tuple[list[list[tuple[int, int]]], list[int]]:
    """Tags and values (of bytes, their lengths) of each message, and the damaged ones."""
    buffer = make_buffer(b"".join(messages))
    ends = np.cumsum([len(message) for message in messages], dtype=np.int64)
    fields, damaged = split_messages(buffer, ends - [len(message) for message in messages], ends)
    found: list[list[tuple[int, int, int]]] = [[] for _ in messages]
    for owner, tag, value, start in zip(fields.owner, fields.tag, fields.value, fields.start, strict=True):
        found[owner].append((int(start), int(tag), int(value)))
    return [[(tag, value) for _, tag, value in sorted(each)] for each in found], damaged.tolist()


@given(MESSAGES)
def test_many_messages_are_split_as_one(messages: list[list[tuple[int, int | float | bytes]]]) -> None:
    raw = [encode(message) for message in messages]
    found, damaged = split(raw)
    assert not damaged
    expected = [
        [
            (number << 3 | wire, len(value) if isinstance(value, bytes) else value)
            for number, wire, value in split_message(each)
        ]
        for each in raw
    ]
    assert found == expected


@given(st.lists(st.binary(max_size=40), max_size=60))
def test_damaged_messages_are_told_and_have_no_fields(raw: list[bytes]) -> None:
    found, damaged = split(raw)
    for index, each in enumerate(raw):
        try:
            count = len(split_message(each))
        except ValueError:
            assert index in damaged
            assert not found[index]
        else:
            assert index not in damaged
            assert len(found[index]) == count


@pytest.mark.parametrize("number", [0, 1, 127, 128, 16383, 16384, (1 << 63) - 1, (1 << 63), (1 << 64) - 1])
def test_numbers_of_64_bits(number: int) -> None:
    signed = number - (1 << 64) if number >> 63 else number
    assert split_message(encode([(5, number)])) == [(5, VARINT, signed)]


def test_packets_end_where_the_file_is_cut() -> None:
    data = encode_trace([[(8, 5)], [(8, 6), (11, "x" * 300)], [(8, 7)]])
    starts, ends, _, at = find_messages(make_buffer(data), 1, 0, len(data), most=10)
    assert at == len(data)
    assert [split_message(data[start:end])[0] for start, end in zip(starts, ends, strict=True)] == [
        (8, VARINT, 5), (8, VARINT, 6), (8, VARINT, 7),
    ]  # fmt: skip
    starts, _, _, at = find_messages(make_buffer(data[:-1]), 1, 0, len(data) - 1, most=10)
    assert (len(starts), at) == (2, len(data) - 4)
    more, _, _, at = find_messages(make_buffer(data), 1, 0, len(data), most=1)
    assert (len(more), at) == (1, 4)


def test_other_fields_of_the_file_stand_beside() -> None:
    data = encode([(99, 3), (1, [(8, 5)]), (7, "text"), (1, [(8, 6)])])
    found = find_messages(make_buffer(data), 1, 0, len(data))
    assert len(found.starts) == 2
    assert [(each.number, each.value) for each in found.others] == [(99, 3), (7, 4)]
    assert found.behind == len(data)
    assert split_message(b"\x0a" + encode_varint(1) + b"z")[0] == (1, BYTES, b"z")
