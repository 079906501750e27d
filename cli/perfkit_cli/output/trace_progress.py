"""Shows the progress of reading traces: a line per file, on a terminal only for several or slow ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from perfkit.core.units import format_bytes
from perfkit_cli.output.live_lines import show_lines

if TYPE_CHECKING:
    from perfkit.analysis.pipeline.trace_analysis import Progress, TraceProgress


@contextmanager
def show_reading(console: Console) -> Iterator["Progress | None"]:
    """Yields the function that takes each trace's progress; None where no one is watching."""
    if console.quiet or not console.is_terminal:
        yield None
        return
    with show_lines(console) as tell:
        tell("reading")
        yield lambda read: tell(format_trace_read(read))


def format_trace_read(read: "TraceProgress") -> str:
    """`[3/64] traces/rank2.json.gz: 326 MiB at 84 MiB/s`."""
    place = f"[{read.number}/{read.total}] {read.source}"
    if read.error:
        return f"{place}: left out: {read.error}"
    speed = f" at {format_bytes(round(read.json_bytes / read.seconds))}/s" if read.seconds > 0 else ""
    return f"{place}: {format_bytes(read.json_bytes)}{speed}"
