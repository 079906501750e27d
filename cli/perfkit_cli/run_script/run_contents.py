"""Describes what a run's folder holds after something went wrong."""

from pathlib import Path

from perfkit.core.errors import RunFormatError
from perfkit.core.files import read_json
from perfkit.core.record import RankRecord
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, SUITE_FILE, TRACE_FILE


def describe_run_contents(folder: Path) -> str:
    """Describe the contents of a run: `20 timed steps, the trace`; empty if there is nothing to report."""
    suite = folder / SUITE_FILE
    if not suite.is_file() or not suite.stat().st_size:
        return ""
    steps = max((_count_timed_steps(path) for path in folder.glob(f"*/*/rank*/{RECORD_FILE}")), default=None)
    if steps is None:
        return ""
    parts = [f"{steps} timed steps"]
    for name, words in ((TRACE_FILE, "the trace"), (MEMORY_FILE, "the memory recording")):
        if any(folder.glob(f"*/*/rank*/{name}")):
            parts.append(words)
    return ", ".join(parts)


def _count_timed_steps(record: Path) -> int:
    try:
        return len(read_json(record, RankRecord).samples.wall_s)
    except RunFormatError:
        return 0
