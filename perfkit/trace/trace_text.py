"""The text of a trace file, as a reader gets it."""

from pathlib import Path
from typing import NamedTuple

from perfkit.core.text_blocks import ReadLimits, TextBlocks


class TraceText(NamedTuple):
    """The decompressed text of a trace at a path or URL, whose file has `file_bytes`.

    Without `allocations` the trace's memory stays empty. `workers` are processes that may share the work.
    """

    source: str | Path
    file_bytes: int
    blocks: TextBlocks
    limits: ReadLimits
    workers: int
    allocations: bool
