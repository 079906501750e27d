"""The floor: decompress the whole file and decode it with msgspec to typed structs, as one piece, and stop."""

import gc
import gzip
import sys
from pathlib import Path

import msgspec


class Args(msgspec.Struct, gc=False):
    external_id: msgspec.Raw = msgspec.field(name="External id", default=msgspec.Raw())
    correlation: msgspec.Raw = msgspec.Raw()
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=msgspec.Raw())


class Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0
    dur: float = 0
    args: Args | None = None


class File(msgspec.Struct):
    events: list[Event] = msgspec.field(name="traceEvents")


gc.disable()
msgspec.json.decode(gzip.decompress(Path(sys.argv[1]).read_bytes()), type=File)
