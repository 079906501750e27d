"""Reads any memory recording, detected by content."""

import re
from pathlib import Path

from perfkit.core.errors import PerfkitError, RunFormatError
from perfkit.core.note import make_note
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.store.memory_file import read_allocations
from perfkit.trace.memory.consistency import describe_inconsistencies
from perfkit.trace.memory.memory_file import MemoryFile
from perfkit.trace.memory.raw_timeline import read_raw_timeline
from perfkit.trace.memory.snapshot import read_snapshot
from perfkit.trace.memory.trace_allocations import FROM_NOTHING, build_ops_allocations
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.ops.training import find_training
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import open_source

RECORDING = "recording of perfkit"
TRACE = "trace of torch.profiler"
EXPECTED = (
    "a snapshot of torch.cuda.memory._dump_snapshot (pickle or JSON), a torch.profiler trace recorded with "
    "profile_memory=True, a memory timeline of torch.profiler, or memory.parquet of perfkit"
)

_UNSEEN = f"{FROM_NOTHING}: a model built earlier is missing from the peak"

_PARQUET = b"PAR1"
_PICKLE = re.compile(rb"\x80[\x02-\x05]|[(\]}]")
_BINARY_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_SNAPSHOT = re.compile(rb'"(segments|device_traces|segment_type|total_size)"\s*:')
_TIMELINE = re.compile(rb"\s*(<|\[\s*\[\s*-?\d)")
_SNIFFED = 1 << 16


def read_memory(path: str | Path) -> MemoryFile:
    """Read a recording of memory at a path or URL, plain or gzip.

    It may be an allocator snapshot, as pickle or JSON, a trace with memory events, a memory timeline, or what perfkit
    recorded. `RunFormatError` names a file that is none of these, or holds no memory events.
    """
    label = str(path)
    head = _read_head(label)
    if head.startswith(_PARQUET):
        return MemoryFile(kind=RECORDING, allocations=(read_allocations(Path(path)),))
    text = head.lstrip()
    if not text:
        raise RunFormatError(f"{label}: is empty; expected {EXPECTED}")
    if _TIMELINE.match(text):
        return read_raw_timeline(path)
    if text[:1] in b"[{" and not _SNAPSHOT.search(text):
        return _read_trace_memory(label)
    if text[:1] in b"[{" or _PICKLE.match(head):
        return read_snapshot(path)
    raise RunFormatError(f"{label}: not a memory recording known to perfkit; expected {EXPECTED}")


def is_memory_recording(path: str | Path) -> bool:
    """True if a file begins as a memory recording, not as a trace; trace recordings count as traces."""
    try:
        head = _read_head(str(path))
    except PerfkitError:
        return False
    text = head.lstrip()
    if text[:1] in (b"[", b"{"):
        return bool(_TIMELINE.match(text) or (_SNAPSHOT.search(text) and b'"traceEvents"' not in text))
    return head.startswith(_PARQUET) or bool(_BINARY_PICKLE.match(head))


def _read_head(label: str) -> bytes:
    """The beginning of a file's text."""
    file, file_bytes = open_source(label)
    with file:
        if file.read(len(_PARQUET)) == _PARQUET:
            return _PARQUET
        file.seek(0)
        return TextBlocks(file, label, file_bytes, ReadLimits()).peek()[:_SNIFFED]


def _read_trace_memory(label: str) -> MemoryFile:
    trace = read_trace(label)
    ops = read_ops(trace)
    recordings = build_ops_allocations(ops)
    if not recordings:
        raise RunFormatError(
            f"{label}: a trace without memory events: record it with torch.profiler.profile(profile_memory=True)"
        )
    unseen = any(FROM_NOTHING in recording.source for recording in recordings)
    notes = (
        *trace.notes,
        *describe_inconsistencies(trace.memory),
        *((make_note("memory.unseen_before", _UNSEEN),) if unseen else ()),
    )
    return MemoryFile(kind=TRACE, allocations=recordings, notes=notes, trains=find_training(ops))
