"""The formats of traces that are read, by the beginning of their content."""

from collections.abc import Callable
from typing import NamedTuple

from perfkit.trace.model import Trace
from perfkit.trace.readers.kineto.kineto_reader import read_kineto
from perfkit.trace.readers.nsys.nsys_reader import is_nsys_export, read_nsys
from perfkit.trace.readers.pftrace.pftrace_reader import is_pftrace, read_pftrace
from perfkit.trace.readers.rocprof.rocprof_reader import is_rocprof_json, read_rocprof_json
from perfkit.trace.readers.xplane.xplane_reader import is_xplane, read_xplane
from perfkit.trace.trace_text import TraceText


class TraceFormat(NamedTuple):
    """A format of traces beside Chrome's JSON.

    A file is recognized by the first block of its content, decompressed, never by its name; `suffixes` are those that
    its files usually have, by which they are found in folders.
    """

    recognizes: Callable[[bytes], bool]
    read: Callable[[TraceText], Trace]
    suffixes: tuple[str, ...]


XPLANE = ".xplane.pb"

# A plane of an XSpace is a packet of Perfetto's by its first bytes, too, but its name tells.
FORMATS: tuple[TraceFormat, ...] = (
    TraceFormat(is_xplane, read_xplane, (XPLANE,)),
    TraceFormat(is_pftrace, read_pftrace, (".pftrace", ".perfetto-trace", ".perfetto")),
    TraceFormat(is_nsys_export, read_nsys, (".sqlite",)),
    TraceFormat(is_rocprof_json, read_rocprof_json, ()),
)


def find_reader(head: bytes) -> Callable[[TraceText], Trace]:
    """The reader of a file that begins with `head`: Kineto's for any text, which says what is wrong with it."""
    return next((each.read for each in FORMATS if each.recognizes(head)), read_kineto)
