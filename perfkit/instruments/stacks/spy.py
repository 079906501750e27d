"""Samples of the stacks of another process, which knows nothing of it: taken by py-spy.

py-spy stops the process for each sample: stacks that are read while they change are wrong without saying so.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from perfkit.errors import PerfkitError, UnavailableError
from perfkit.missing import needs

_WITHIN_S = 30.0  # that py-spy takes to begin and to write
_FAILED = re.compile(r"Errors: (\d+)")
_NO_PYTHON = ("failed to find python version", "failed to find python interpreter", "no python processes found")
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


class Spied(NamedTuple):
    """What was seen: `text` is read by `read_collapsed`; `failed` samples could not be taken."""

    text: str
    seconds: float
    failed: int


def spy(pid: int, file: Path, *, seconds: float, hz: int) -> Spied:
    """Sample all threads of a process and of its children, also those that wait, and leave what is seen in `file`.

    Ends earlier with the process, or at Ctrl-C; what was seen until then is kept. Raises `PerfkitError`, with what to
    do, where nothing can be seen.
    """
    command = [_found(), "record", "--pid", str(pid), "--subprocesses", "--threads", "--idle", "--full-filenames"]
    command += ["--format", "raw", "--rate", str(hz), "--duration", f"{max(1, round(seconds))}", "--output", str(file)]
    file.unlink(missing_ok=True)  # of an earlier look
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=seconds + _WITHIN_S)
        except KeyboardInterrupt:  # a terminal's reaches py-spy as well: it writes what it has, and ends
            said, _ = process.communicate(timeout=_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise PerfkitError(f"py-spy did not end within {_WITHIN_S:.0f} s after the time it was given") from None
    lasted = min(time.monotonic() - began, seconds)
    text = file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
    if process.returncode or not text:
        raise why_not(pid, said)
    failed = _FAILED.search(said)
    return Spied(text, lasted, int(failed[1]) if failed else 0)


def _found() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.is_file() else shutil.which("py-spy")
    if found is None:
        raise needs("py-spy", "'perfkit[attach]'")
    return found


def why_not(pid: int, said: str, *, scope: Callable[[], str] = lambda: _scope()) -> PerfkitError:
    """What kept py-spy from seeing process `pid`, and what to do, in a line, by what it `said`."""
    told = said.lower()
    if "permission denied" in told or "operation not permitted" in told:
        return UnavailableError(f"process {pid} may not be looked into: {scope()}")
    if any(words in told for words in _NO_PYTHON):
        return PerfkitError(f"process {pid} runs no Python that py-spy knows: give the one that runs the training")
    if "no such process" in told or "no such file" in told or "check that the process is running" in told:
        return PerfkitError(f"process {pid} ended before anything of it was seen")
    lines = [line.removeprefix("Error: ") for line in said.splitlines() if line.strip()]
    return PerfkitError(f"py-spy saw nothing of process {pid}: {lines[0] if lines else 'it does not say why'}")


def _scope() -> str:
    """What forbids it here."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "in a container, start it with --cap-add SYS_PTRACE (Kubernetes: capabilities.add SYS_PTRACE)"
    if _SCOPE.is_file() and _SCOPE.read_text().strip() != "0":
        return "run perfkit with sudo, or allow it until the next boot: sudo sysctl kernel.yama.ptrace_scope=0"
    return "run perfkit with sudo; in a container, start that with --cap-add SYS_PTRACE"
