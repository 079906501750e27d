"""A file that stands in a rank's folder while it writes its flight record, so that whoever ends the rank lets it.

Ranks that hang are dumped at once: eight of them look up the stacks of thousands of collectives on the same cores, in
C++ as well where TORCH_NCCL_TRACE_CPP_STACK=1 (torch's flight recorder), which takes longer than one rank alone.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

MARK_FILE = "flight_recorder.writing"
DUMP_LIMIT = "PERFKIT_DUMP_LIMIT_S"
_DUMP_LIMIT_S = 30.0


@contextlib.contextmanager
def dump_marked(folder: Path) -> Iterator[None]:
    """The mark stands while the body runs."""
    mark = folder / MARK_FILE
    with contextlib.suppress(OSError):  # a disk that is full: the dump has the usual time
        mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def find_marks(folder: Path) -> list[Path]:
    """The marks of a rank's folder, or of all ranks of a run's folder."""
    return [mark for mark in (folder / MARK_FILE, *folder.glob(f"rank*/{MARK_FILE}")) if mark.exists()]


def dump_limit_s() -> float:
    """Seconds that terminated ranks get to write their flight records, from PERFKIT_DUMP_LIMIT_S."""
    try:
        return max(0.0, float(os.environ[DUMP_LIMIT]))
    except (KeyError, ValueError):
        return _DUMP_LIMIT_S
