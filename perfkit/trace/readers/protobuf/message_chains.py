"""Finds the messages of a repeated field of a large message, in many places of it at once.

Where a message ends is known from where it begins alone, so that one has to be found after the other. But a reader that
begins anywhere is in step after some messages: what is none ends, as a rule, in front of another tag. So the bytes are
dealt to many readers, which all take a message a round. What one of them found counts if the one before it ended where
it began; where it did not, the messages are found one by one.
"""

from typing import NamedTuple

import numpy as np

from perfkit.trace.model import Ints
from perfkit.trace.readers.protobuf.wire import BYTES, WireBuffer, decode_varints, find_messages, make_tag

# Bytes for each reader: fewer take more readers, more take more rounds.
_SHARE = 1 << 14
_MOST_READERS = 1 << 12
_FEWEST_READERS = 64
# A reader looks for its first message in so many bytes, and believes one that so many others follow.
_SEARCHED = 1 << 10
_FOLLOWERS = 8


class MessagePlaces(NamedTuple):
    """Where messages of a repeated field start and end, and the position behind all (see `RepeatedMessages`)."""

    starts: Ints
    ends: Ints
    behind: int


def find_all_messages(buffer: WireBuffer, number: int) -> MessagePlaces:
    """Find the messages of a repeated field (its number below 16) of the message that fills a buffer."""
    readers = min(buffer.size // _SHARE, _MOST_READERS)
    if readers < _FEWEST_READERS:
        starts, ends, _, behind = find_messages(buffer, number, 0, buffer.size)
        return MessagePlaces(np.asarray(starts, np.int64), np.asarray(ends, np.int64), behind)
    tag = make_tag(number, BYTES)
    begins = _find_begins(buffer, tag, np.arange(1, readers) * (buffer.size // readers))
    return _join_chains(buffer, number, _follow_chains(buffer, tag, np.concatenate(([0], begins))))


class _Chains(NamedTuple):
    """What each reader found from `begin` on: its messages are `offset[reader]` to `offset[reader + 1]`."""

    begin: Ints
    behind: Ints
    offset: Ints
    starts: Ints
    ends: Ints


def _find_begins(buffer: WireBuffer, tag: int, edges: Ints) -> Ints:
    """Positions that look like the beginning of a message, at most one behind each edge, in their order."""
    near = buffer.octets[np.minimum(edges[:, None] + np.arange(_SEARCHED), buffer.size - 1)] == tag
    edge, place = np.nonzero(near)
    at = edges[edge] + place
    for _ in range(_FOLLOWERS):
        _, ends, good = _read_messages(buffer, tag, at)
        edge, at = edge[good], ends[good]
    _, first = np.unique(edge, return_index=True)
    return np.unique(at[first])


def _read_messages(buffer: WireBuffer, tag: int, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Where the messages at these positions start and end, and which of them are messages."""
    inside = np.minimum(at, buffer.size)  # padding follows
    length, start = decode_varints(buffer, inside + 1)
    end = start + length
    good = (buffer.octets[inside] == tag) & (at < buffer.size) & (length >= 0) & (end <= buffer.size)
    return start, end, np.flatnonzero(good)


def _follow_chains(buffer: WireBuffer, tag: int, begin: Ints) -> _Chains:
    """Follow the messages from each beginning to the next one."""
    until = np.concatenate((begin[1:], [buffer.size]))
    behind, count = begin.copy(), np.zeros(len(begin), np.int64)
    reader, at = np.arange(len(begin)), begin
    rounds: list[tuple[Ints, Ints, Ints]] = []
    while len(reader):
        start, end, good = _read_messages(buffer, tag, at)
        reader, start, end = reader[good], start[good], end[good]
        rounds.append((reader, start, end))
        behind[reader] = end
        count[reader] += 1
        going = np.flatnonzero(end < until[reader])
        reader, at = reader[going], end[going]
    offset = np.concatenate(([0], np.cumsum(count)))
    starts, ends = np.zeros(offset[-1], np.int64), np.zeros(offset[-1], np.int64)
    for turn, (reader, start, end) in enumerate(rounds):
        place = offset[reader] + turn
        starts[place], ends[place] = start, end
    return _Chains(begin, behind, offset, starts, ends)


def _join_chains(buffer: WireBuffer, number: int, chains: _Chains) -> MessagePlaces:
    """The messages from the first on, found one by one where a reader did not begin where the last message ended."""
    parts: list[tuple[Ints, Ints]] = []
    begins, behinds, offsets = chains.begin.tolist(), chains.behind.tolist(), chains.offset.tolist()
    at = 0
    for reader, until in enumerate([*begins[1:], buffer.size]):
        if at == begins[reader]:
            its = slice(offsets[reader], offsets[reader + 1])
            parts.append((chains.starts[its], chains.ends[its]))
            at = behinds[reader]
        if at < until:
            found = find_messages(buffer, number, at, buffer.size, until=until)
            parts.append((np.asarray(found.starts, np.int64), np.asarray(found.ends, np.int64)))
            at = found.behind
            if at < until:  # damaged
                break
    starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return MessagePlaces(starts, ends, at)
