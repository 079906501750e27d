"""The fields of Kineto's JSON that are used, as typed structs: everything else is skipped while decoding.

Lists of shapes stay raw bytes: equal bytes are equal signatures, and each distinct one is parsed once.
"""

import gc
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perfkit.errors import RunFormatError

Number = int | float
Id = int | float | str | None


class EventArgs(msgspec.Struct, gc=False):
    """`args` of an event. Ids may be numbers or text, by the version that wrote them."""

    external_id: Id = msgspec.field(name="External id", default=None)
    correlation: Id = None
    device: Id = None
    stream: Id = None
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())
    strides: msgspec.Raw = msgspec.field(name="Input Strides", default=msgspec.Raw())
    types: msgspec.Raw = msgspec.field(name="Input type", default=msgspec.Raw())
    concrete: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=msgspec.Raw())
    address: Id = msgspec.field(name="Addr", default=None)
    size: Id = msgspec.field(name="Bytes", default=None)
    device_type: Id = msgspec.field(name="Device Type", default=None)
    device_id: Id = msgspec.field(name="Device Id", default=None)
    allocated: Id = msgspec.field(name="Total Allocated", default=None)
    reserved: Id = msgspec.field(name="Total Reserved", default=None)
    kernel_backend: str | None = None
    sequence: Id = msgspec.field(name="Sequence number", default=None)
    moved: Id = msgspec.field(name="bytes", default=None)
    collective: str = msgspec.field(name="Collective name", default="")
    sent: Id = msgspec.field(name="In msg nelems", default=None)
    received: Id = msgspec.field(name="Out msg nelems", default=None)
    dtype: str = ""
    group: str = msgspec.field(name="Process Group Name", default="")
    group_text: str = msgspec.field(name="Process Group Description", default="")
    group_size: Id = msgspec.field(name="Group size", default=None)


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`; times in microseconds."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Id = None
    tid: Id = None
    id: Id = None
    ts: Number = 0
    dur: Number = 0
    args: EventArgs | None = None


class Device(msgspec.Struct):
    """An entry of `deviceProperties`."""

    id: int = -1
    name: str = ""


class Distributed(msgspec.Struct):
    """`distributedInfo`: the process's place among the ranks."""

    backend: str = ""
    rank: int | None = None
    world_size: int | None = None


class File(msgspec.Struct):
    """A trace file."""

    events: list[Event] = msgspec.field(name="traceEvents")
    base_ns: int = msgspec.field(name="baseTimeNanoseconds", default=0)
    devices: list[Device] = msgspec.field(name="deviceProperties", default_factory=list)
    distributed: Distributed | None = msgspec.field(name="distributedInfo", default=None)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Collections while millions of objects are created find nothing and cost more than the decoding."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def decode(path: Path) -> tuple[File, int]:
    """Read a trace, plain or gzip, by its content; with the size of its JSON in bytes.

    `RunFormatError` names a file that is truncated or no trace.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RunFormatError(f"{path}: truncated or damaged gzip file ({error}); record or copy it again") from None
    except OSError as error:
        raise RunFormatError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        with _without_gc():
            if data.lstrip()[:1] == b"[":  # the list of events alone, which the format also allows
                return File(events=msgspec.json.decode(data, type=list[Event])), len(data)
            return msgspec.json.decode(data, type=File), len(data)
    except msgspec.ValidationError as error:
        raise RunFormatError(f"{path}: not a trace of torch.profiler: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunFormatError(f"{path}: truncated or damaged JSON ({error}); record or copy it again") from None
