"""Records of synchronisation (`cuda_sync`), which torch.profiler writes with `enable_cuda_sync_events`.

Their members are those of Kineto's `CudaSyncActivity`, their names those of its `syncTypeString`.
"""

from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.model import SYNC_KINDS
from perfkit.trace.readers.event_table import parse_numbers
from perfkit.trace.readers.event_table.event_args import EventArgs
from perfkit.trace.readers.kineto.kineto import AnyEvent

SYNCS = "cuda_sync"
_NO_ARGS = EventArgs()


def build_syncs(events: list[AnyEvent], time_ns: NDArray[np.int64], rows: list[int]) -> dict[str, NDArray[Any]]:
    """The columns of `Syncs`, given the rows of events of this category."""
    rows = [row for row in rows if events[row].name in SYNC_KINDS]
    args = [events[row].args or _NO_ARGS for row in rows]

    def arg(name: str) -> NDArray[np.int64]:
        return parse_numbers.parse_integers(lambda: map(attrgetter(name), args), len(args))

    return {
        "kind": np.fromiter((SYNC_KINDS.index(str(events[row].name)) for row in rows), np.int8, len(rows)),
        "time_ns": time_ns[rows],
        "call": arg("correlation"),
        "device": arg("device"),
        "stream": arg("stream"),
        "source": arg("wait_on_stream"),
        "record": arg("event_record"),
    }
