"""A trace of any format as Chrome's trace events: what its reader yielded, as Kineto would have written it.

Ranges, ops, calls and the work of devices with their arguments, arrows from launches to what they started, counters,
and the names of threads. Waits on streams, allocations and what readers leave out are not written.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from perfkit.analysis.export.chrome_events import format_time
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Trace

_CATEGORIES = {
    Category.OTHER: "trace",
    Category.OP: "cpu_op",
    Category.RANGE: "user_annotation",
    Category.KERNEL: "kernel",
    Category.COPY: "gpu_memcpy",
    Category.FILL: "gpu_memset",
    Category.PYTHON: "python_function",
    Category.GPU_RANGE: "gpu_user_annotation",
    Category.UNKNOWN: "",
}
_SIGNATURE = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
_GEOMETRY = (
    "grid",
    "block",
    "shared memory",
    "registers per thread",
    "blocks per SM",
    "est. achieved occupancy %",
)
# Columns of numbers that are arguments.
_NUMBERS = {
    "correlation": "correlation",
    "external_id": "External id",
    "device": "device",
    "stream": "stream",
    "sequence": "Sequence number",
    "moved_bytes": "bytes",
}
_FLOW = "ac2g"


class _Event(msgspec.Struct, omit_defaults=True):
    ph: str
    name: str
    pid: int
    tid: int
    cat: str = ""
    ts: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    dur: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    id: int | msgspec.UnsetType = msgspec.UNSET
    bp: str = ""
    args: dict[str, Any] | None = None


def encode_head(trace: Trace) -> bytes:
    """Encode the beginning of the file, up to and including the bracket of the list of events."""
    about: dict[str, Any] = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": trace.base_ns,
        "deviceProperties": [{"id": number, "name": name} for number, name in sorted(trace.devices.items())],
    }
    if trace.rank is not None:
        about["distributedInfo"] = {"rank": trace.rank, "world_size": trace.world_size}
    return msgspec.json.encode(about)[:-1] + b',"traceEvents":['


def encode_trace_events(trace: Trace) -> Iterator[bytes]:
    """Encode the events as JSON, one after another; times in microseconds."""
    encode = msgspec.json.Encoder().encode
    places = _number_threads(trace.threads)
    for (process, thread), name in zip(places, trace.thread_names, strict=False):
        if name:
            yield encode(_Event("M", "thread_name", process, thread, args={"name": name}))
    for event in _build_slices(trace, places):
        yield encode(event)
    for event in _build_arrows(trace, places):
        yield encode(event)
    counters = trace.counters
    samples = (counters.counter.tolist(), counters.device.tolist(), counters.time_ns.tolist(), counters.value.tolist())
    for counter, device, time_ns, value in zip(*samples, strict=True):
        name = counters.names[counter]
        yield encode(_Event("C", name, max(device, 0), 0, ts=format_time(time_ns, 1000), args={name: value}))


def _number_threads(threads: Iterable[tuple[str, str]]) -> list[tuple[int, int]]:
    """The process and thread of each as numbers: the written ones where they are, others from a million on."""
    numbers: dict[str, int] = {}

    def number(text: str) -> int:
        try:
            return int(text)
        except ValueError:
            return numbers.setdefault(text, 1_000_000 + len(numbers))

    return [(number(process), number(thread)) for process, thread in threads]


def _build_slices(trace: Trace, places: list[tuple[int, int]]) -> Iterator[_Event]:
    launch = f"{trace.runtime or 'cuda'}_runtime"
    cats = [_CATEGORIES.get(category, launch) for category in Category]
    signatures = [dict(_keep_raw(_SIGNATURE, signature)) for signature in trace.signatures]
    geometries = [dict(_keep_raw(_GEOMETRY, geometry.split(b"\0"))) for geometry in trace.geometries]
    numbers = [(name, getattr(trace, column).tolist()) for column, name in _NUMBERS.items()]
    columns = (trace.category, trace.name, trace.thread, trace.start_ns, trace.end_ns, trace.signature, trace.geometry)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for row, (category, name, thread, start_ns, end_ns, signature, geometry) in enumerate(rows):
        args = {key: values[row] for key, values in numbers if values[row] != NONE}
        if signature != NONE:
            args |= signatures[signature]
        if geometry != NONE:
            args |= geometries[geometry]
        process, lane = places[thread]
        begin, lasts = format_time(start_ns, 1000), format_time(end_ns - start_ns, 1000)
        yield _Event("X", trace.names[name], process, lane, cats[category], begin, lasts, args=args or None)


def _keep_raw(names: Iterable[str], values: Iterable[bytes]) -> Iterator[tuple[str, msgspec.Raw]]:
    """The members that were recorded, as the trace wrote them."""
    return ((name, msgspec.Raw(value)) for name, value in zip(names, values, strict=False) if value)


def _build_arrows(trace: Trace, places: list[tuple[int, int]]) -> Iterator[_Event]:
    """From each launch to the work with its correlation."""
    calls = trace.select_events(Category.LAUNCH)
    launches = {number: row for row, number in zip(calls.tolist(), trace.correlation[calls].tolist(), strict=True)}
    work = trace.select_events(*DEVICE_CATEGORIES)
    work = work[np.asarray(trace.correlation[work]) != NONE]
    for row, number in zip(work.tolist(), trace.correlation[work].tolist(), strict=True):
        launch = launches.get(number)
        if launch is None:
            continue
        for phase, end in (("s", launch), ("f", row)):
            begin = format_time(int(trace.start_ns[end]), 1000)
            process, lane = places[int(trace.thread[end])]
            yield _Event(phase, _FLOW, process, lane, _FLOW, begin, id=number, bp="e" if phase == "f" else "")
