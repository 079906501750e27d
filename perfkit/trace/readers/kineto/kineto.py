"""The used fields of Kineto's JSON as typed structs; all others are skipped while decoding."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from perfkit.trace.readers.event_table.event_args import NOTHING, EventArgs, Id

NAN = float("nan")


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; times in microseconds, NaN where the file has none."""

    ph: str | None = ""
    cat: str | None = ""
    name: Id = ""
    pid: Id = None
    tid: Id = None
    id: Id = None
    ts: float | None = NAN
    dur: float | None = NAN
    args: EventArgs | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """An `Event` whose time is kept as it is written, for times that a double would round."""

    ph: str | None = ""
    cat: str | None = ""
    name: Id = ""
    pid: Id = None
    tid: Id = None
    id: Id = None
    ts: msgspec.Raw = NOTHING
    dur: float | None = NAN
    args: EventArgs | None = None


AnyEvent = Event | ExactEvent

# Errors of the decoders for text that is not JSON, or not of these types.


class EventDecoders:
    """Decoders of a list of events and of one, with times as doubles or as written."""

    def __init__(self, exact: bool) -> None:
        kind: type[AnyEvent] = ExactEvent if exact else Event
        self.exact = exact
        self.many: msgspec.json.Decoder[list[AnyEvent]] = msgspec.json.Decoder(list[kind], strict=False)  # type: ignore[valid-type]
        self.one: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(kind, strict=False)


@contextmanager
def pause_gc() -> Iterator[None]:
    """Collections while millions of objects are created find nothing and cost more than the decoding."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
