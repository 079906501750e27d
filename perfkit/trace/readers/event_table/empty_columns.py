"""Columns of events that state nothing, for readers to fill in what their format holds."""

import numpy as np

from perfkit.trace.model import NONE
from perfkit.trace.readers.event_table.piece_columns import Columns, EventKind

NO_FLOWS: Columns = {
    "kind": np.zeros(0, np.int8),
    "id": np.zeros(0, np.int64),
    "start": np.zeros(0, np.bool_),
    "time_ns": np.zeros(0, np.int64),
    "thread": np.zeros(0, np.int32),
}
NO_MEMORY: Columns = {
    **{name: np.zeros(0, np.int64) for name in ("time_ns", "address", "size", "allocated", "reserved")},
    **{name: np.zeros(0, np.int32) for name in ("device_type", "device", "thread")},
    "failed": np.zeros(0, np.bool_),
}
NO_SYNCS: Columns = {
    "kind": np.zeros(0, np.int8),
    **{name: np.zeros(0, np.int64) for name in ("time_ns", "call", "device", "stream", "source", "record")},
}
NO_COUNTERS: Columns = {
    **{name: np.zeros(0, np.int32) for name in ("name", "thread")},
    "time_ns": np.zeros(0, np.int64),
    "value": np.zeros(0, np.float64),
}
_IDS = ("correlation", "external_id", "device", "stream", "sequence", "moved_bytes", "node")
_NUMBERS_OF_TABLES = ("signature", "geometry", "collective", "stated")


def make_rows(count: int) -> Columns:
    """Rows of complete events at time 0 of the first name, category and thread."""
    return {
        "kind": np.full(count, EventKind.COMPLETE, np.int8),
        **{name: np.zeros(count, np.int32) for name in ("cat", "name", "thread")},
        **{name: np.zeros(count, np.int64) for name in ("start_ns", "duration")},
        **{name: np.full(count, NONE, np.int64) for name in _IDS},
        **{name: np.full(count, NONE, np.int32) for name in _NUMBERS_OF_TABLES},
        **{name: np.zeros(count, np.bool_) for name in ("hlo", "numbered")},
    }
