"""Messages found in many places at once are those found one by one, in whatever bytes."""

from random import Random

import pytest

from perfkit.trace.readers.protobuf import message_chains
from perfkit.trace.readers.protobuf.message_chains import find_all_messages
from perfkit.trace.readers.protobuf.wire import find_messages, make_buffer
from tests.fixtures.protobuf import Value, encode, encode_trace

SEEDS = range(12)


@pytest.fixture(autouse=True)
def _many_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SHARE", 64), ("_FEWEST_READERS", 2), ("_SEARCHED", 48), ("_FOLLOWERS", 2)):
        monkeypatch.setattr(message_chains, name, value)


def check(data: bytes) -> int:
    """Compare both, and return how many messages there are."""
    buffer = make_buffer(data)
    starts, ends, _, behind = find_messages(buffer, 1, 0, buffer.size)
    found = find_all_messages(buffer, 1)
    assert (found.starts.tolist(), found.ends.tolist(), found.behind) == (starts, ends, behind)
    return len(starts)


def draw_packet(random: Random) -> list[tuple[int, Value]]:
    """A packet of a time and of something that may look like packets itself: texts of their tag, repeated messages."""
    inner: list[Value] = [
        "\n" * random.randrange(200),
        [(1, "name")] * random.randrange(60),
        random.randbytes(random.randrange(400)),
        [],
    ]
    return [(8, random.randrange(1 << 40)), (12, random.choice(inner))]


@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_those_that_are_found_one_by_one(seed: int) -> None:
    random = Random(seed)
    data = encode_trace([draw_packet(random) for _ in range(300)])
    assert check(data) == 300
    check(data[: random.randrange(len(data))])
    damaged = bytearray(data)
    for _ in range(3):
        damaged[random.randrange(len(data))] = random.randrange(256)
    check(bytes(damaged))


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_other_fields_between_them_are_passed_over(seed: int) -> None:
    random = Random(seed)
    fields: list[tuple[int, Value]] = []
    for _ in range(200):
        fields += [(1, draw_packet(random)), (random.choice([7, 99]), random.choice([3, "\n\n\n\n"]))]
    assert check(encode(fields)) == 200


def test_a_message_that_spans_many_readers_is_one() -> None:
    assert check(encode_trace([[(12, "\n\0" * 3000)], [(8, 1)] * 50, [(8, 2)]])) == 3


def test_bytes_that_are_no_messages_hold_none() -> None:
    assert check(b"\n" * 1000 + b"\xff" * 1000) <= 1000
    assert check(b"\xff" * 1000) == 0
