"""What is in a run's folder after something went wrong, in words."""

from pathlib import Path

from perfkit.errors import RunFormatError
from perfkit.files import read_json
from perfkit.record import RankRecord
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, SUITE_FILE, TRACE_FILE


def kept(folder: Path) -> str:
    """`20 timed steps, the trace`; empty where nothing that could be drawn is there."""
    suite = folder / SUITE_FILE
    if not suite.is_file() or not suite.stat().st_size:
        return ""
    steps = max((_timed(path) for path in folder.glob(f"*/*/rank*/{RECORD_FILE}")), default=None)
    if steps is None:
        return ""
    parts = [f"{steps} timed steps"]
    for name, words in ((TRACE_FILE, "the trace"), (MEMORY_FILE, "the recording of memory")):
        if any(folder.glob(f"*/*/rank*/{name}")):
            parts.append(words)
    return ", ".join(parts)


def _timed(record: Path) -> int:
    try:
        return len(read_json(record, RankRecord).samples.wall_s)
    except RunFormatError:
        return 0
