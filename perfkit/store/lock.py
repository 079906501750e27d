"""Locks a suite's folder for one writer."""

import errno
import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfkit.core.errors import PerfkitError, UsageError
from perfkit.core.files import NO_FOLLOW
from perfkit.store.layout import LOCK_FILE

_NOTE = re.compile(r"process (?P<process>\d+) on (?P<host>.+)")  # who holds it
# Errors of file systems without locks. Two writers there are not detected.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder, creating it if needed, for this process; the system releases it when the process ends.

    Raises a `UsageError` if another process holds it, a `PerfkitError` if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | NO_FOLLOW, 0o644)  # no child inherits it
    except OSError as error:
        raise PerfkitError(f"{folder} is not writable ({error.strerror}): nothing was measured") from None
    try:
        _take_lock(folder, descriptor)
        yield
    finally:
        os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """True if the process that last wrote the folder ran on this machine and is gone; False if unknown."""
    try:
        note = _NOTE.fullmatch((folder / LOCK_FILE).read_text(errors="replace"))
    except OSError:
        return False
    if note is None or note["host"] != socket.gethostname():
        return False
    try:
        os.kill(int(note["process"]), 0)  # not by taking the lock, which a writer may want in that moment
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # another user's
    return False


def _take_lock(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 200, 0).decode(errors="replace")
        raise UsageError(f"{folder} is in use by another perfkit ({holder}): wait until it ends") from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
