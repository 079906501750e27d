"""Channels between a worker process and its parent, separate from the user program's output.

Imports only the standard library: it is used before limits are set and torch is imported.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


def end_with_parent() -> None:
    """Have the system end this process when its parent dies, which then cannot (Linux)."""
    if sys.platform == "linux":
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG, prctl(2)
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def open_progress_channel(log: Path) -> Callable[[str], None]:
    """Keep standard output for progress and send all later output to the log.

    It stays open until this process ends, even if the function is dropped: the parent takes its closing for the
    process's end. Processes that are forked from this one, which may outlive it, have it closed.
    """
    descriptor = os.dup(1)
    channel = os.fdopen(descriptor, "w", buffering=1, closefd=False)
    os.register_at_fork(after_in_child=lambda: os.close(descriptor))
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    return lambda text: print(text, file=channel)


def open_command_channel() -> Iterator[str]:
    """Keep standard input for the parent's commands, a line each; the program's own input is empty from now on.

    The iterator waits for the next line, and ends when the parent has gone.
    """
    channel = os.fdopen(os.dup(0), "r")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return (line.rstrip("\n") for line in iter(channel.readline, ""))
