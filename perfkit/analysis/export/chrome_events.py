"""Events of Chrome's trace format, as Perfetto reads them: slices on tracks of a process of our own, and counters.

Format: "Trace Event Format" (Duncan and others, Google), sections "Complete", "Counter" and "Metadata Events".
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from perfkit.trace.readers.event_table.drop_own_events import OURS

# No process of a system and no device has this number.
PROCESS = 2_000_000_000


class Slice(NamedTuple):
    """An event from `begin_ns` to `end_ns` on the trace's clock; `args` are shown when it is selected."""

    begin_ns: int
    end_ns: int
    name: str
    args: dict[str, Any] = {}


class Track(NamedTuple):
    """A row of slices, in the order of time."""

    name: str
    slices: Iterable[Slice]


class CounterTrack(NamedTuple):
    """Values over time: (nanoseconds, each value by its name)."""

    name: str
    values: Iterable[tuple[int, dict[str, float]]]


class _Event(msgspec.Struct, omit_defaults=True):
    ph: str
    name: str
    pid: int = PROCESS + 1  # so that it is always written
    tid: int = 0
    cat: str = ""
    ts: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    dur: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    args: dict[str, Any] | None = None


def encode_events(tracks: Iterable[Track], counters: Iterable[CounterTrack], *, unit_ns: int = 1000) -> Iterator[bytes]:
    """Encode the events as JSON, one after another. `unit_ns` is the unit of the trace's times: a microsecond."""
    encode = msgspec.json.Encoder().encode
    yield encode(_Event("M", "process_name", PROCESS, args={"name": "perfkit"}))
    yield encode(_Event("M", "process_sort_index", PROCESS, args={"sort_index": -1_000_000}))
    for number, track in enumerate(tracks, PROCESS + 1):  # Perfetto names threads by their number alone
        yield encode(_Event("M", "thread_name", PROCESS, number, args={"name": track.name}))
        yield encode(_Event("M", "thread_sort_index", PROCESS, number, args={"sort_index": number}))
        for begin_ns, end_ns, name, args in _nest_slices(track.slices):
            begin, lasts = format_time(begin_ns, unit_ns), format_time(end_ns - begin_ns, unit_ns)
            yield encode(_Event("X", name, PROCESS, number, OURS, begin, lasts, args or None))
    for counter in counters:
        for at_ns, values in counter.values:
            yield encode(_Event("C", counter.name, PROCESS, 0, OURS, format_time(at_ns, unit_ns), args=values))


def _nest_slices(slices: Iterable[Slice]) -> Iterator[Slice]:
    """The slices in order of time that nest or follow each other: Perfetto drops all others.

    One that reaches beyond another in which it began ends with that. All end a little early, since Perfetto multiplies
    doubles, so that what follows may begin before the end of what it follows.
    """
    ends: list[int] = []
    for piece in slices:
        while ends and ends[-1] <= piece.begin_ns:
            ends.pop()
        end_ns = max(piece.end_ns - _estimate_rounding_ns(piece.end_ns), piece.begin_ns)
        end_ns = max(min(end_ns, ends[-1]), piece.begin_ns) if ends else end_ns
        ends.append(end_ns)
        yield piece._replace(end_ns=end_ns)


def _estimate_rounding_ns(time_ns: int) -> int:
    """The rounding error of a microsecond time stored as a double: 0.25 us for times since 1970, as in older traces."""
    return 2 + int(1000 * math.ulp(time_ns / 1000))


def format_time(nanoseconds: int, unit_ns: int) -> msgspec.Raw:
    """A time as JSON, exactly: a double would round one since 1970."""
    if unit_ns == 1:
        return msgspec.Raw(b"%d" % nanoseconds)
    sign = b"-" if nanoseconds < 0 else b""
    whole, rest = divmod(abs(nanoseconds), unit_ns)
    return msgspec.Raw(b"%s%d.%03d" % (sign, whole, rest))
