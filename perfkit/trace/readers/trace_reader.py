"""Reads a trace into columns, by the reader of its format."""

from io import BytesIO
from pathlib import Path
from typing import BinaryIO, cast

from perfkit.core.errors import RunFormatError
from perfkit.core.text_blocks import ReadLimits, TextBlocks
from perfkit.trace.model import Trace
from perfkit.trace.readers.foreign_files import find_foreign_hint
from perfkit.trace.readers.kineto.kineto_reader import read_kineto
from perfkit.trace.readers.nsys.export_report import export_report, is_report
from perfkit.trace.readers.trace_formats import find_reader
from perfkit.trace.readers.trace_sources import open_source
from perfkit.trace.trace_text import TraceText


def read_trace(
    source: str | Path,
    *,
    limits: ReadLimits = ReadLimits(),  # noqa: B008 - a frozen value
    workers: int = 1,
    allocations: bool = True,
) -> Trace:
    """Read the trace at a path or URL, plain, gzip or zstd, with `workers` processes if it is large.

    A report of Nsight Systems is exported first, with the `nsys` of this machine. Without `allocations` the trace's
    `memory`, which may be a large part of it, stays empty. What is damaged is repaired or left out, and `Trace.notes`
    says so. `RunFormatError` names a file that cannot be read, holds no trace at all, or exceeds the limits.
    """
    if is_report(source):
        data = export_report(source)
        file, file_bytes = cast(BinaryIO, BytesIO(data)), len(data)
    else:
        file, file_bytes = open_source(source)
    with file:
        blocks = TextBlocks(file, str(source), file_bytes, limits)
        head = blocks.peek()
        if hint := find_foreign_hint(str(source), head):
            raise RunFormatError(f"{source}: {hint}")
        return find_reader(head)(TraceText(source, file_bytes, blocks, limits, workers, allocations))


def has_json_events(source: str | Path, limits: ReadLimits) -> bool:
    """True if the trace is a file of JSON events: Chrome's trace format, as torch's profiler writes it."""
    if is_report(source):
        return False
    file, file_bytes = open_source(source)
    with file:
        return find_reader(TextBlocks(file, str(source), file_bytes, limits).peek()) is read_kineto
