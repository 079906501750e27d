"""Counter events (`ph` C): the members of their arguments are series of numbers."""

from itertools import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from perfkit.core.files import JSON_ERRORS
from perfkit.trace.model import Ints
from perfkit.trace.readers.event_table.drop_own_events import OURS
from perfkit.trace.readers.event_table.empty_columns import NO_COUNTERS
from perfkit.trace.readers.event_table.piece_columns import Columns
from perfkit.trace.readers.event_table.tables import TraceTables
from perfkit.trace.readers.kineto.kineto import AnyEvent

# torch's names for the only series of a counter are empty, other writers' say nothing.
_SAY_NOTHING = ("", "value", "Value", "counter")


class _Series(msgspec.Struct, gc=False):
    ph: str | None = ""
    args: dict[str, msgspec.Raw] | None = None


_DECODER = msgspec.json.Decoder(list[_Series], strict=False)
_NUMBER = msgspec.json.Decoder(float, strict=False)


def build_counters(
    events: list[AnyEvent], time_ns: Ints, which: NDArray[np.bool_], text: bytes, tables: TraceTables
) -> Columns:
    """Samples of the events that are counters, which were decoded from `text`; none of those that perfkit added."""
    if not which.any():
        return NO_COUNTERS
    series = _decode_series(text)
    if len(series) != len(events):
        return NO_COUNTERS
    name, thread, time, value = [], [], [], []
    chosen = which.tobytes()
    for event, at, members in zip(
        compress(events, chosen), time_ns[which].tolist(), compress(series, chosen), strict=True
    ):
        if event.cat == OURS:
            continue
        for key, raw in (members.args or {}).items():
            number = _decode_number(raw)
            if number is not None:
                name.append(tables.name[str(event.name) if key in _SAY_NOTHING else f"{event.name}: {key}"])
                thread.append(tables.thread[event.pid, event.tid])
                time.append(at)
                value.append(number)
    return {
        "name": np.asarray(name, np.int32),
        "thread": np.asarray(thread, np.int32),
        "time_ns": np.asarray(time, np.int64),
        "value": np.asarray(value, np.float64),
    }


def _decode_series(text: bytes) -> list[_Series]:
    try:
        return _DECODER.decode(b"".join((b"[", text, b"]")))
    except JSON_ERRORS:
        return []


def _decode_number(raw: msgspec.Raw) -> float | None:
    try:
        return _NUMBER.decode(raw)
    except JSON_ERRORS:
        return None
