"""Samples of the stacks of another process, which knows nothing of it: taken by py-spy."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from perfkit.core.errors import PerfkitError, UnavailableError
from perfkit.core.files import write_bytes
from perfkit.core.optional_deps import make_missing_package_error
from perfkit.core.texts.redact import redact_text

_WITHIN_S = 30.0  # that py-spy takes to begin and to write
_FAILED = re.compile(r"Errors: (\d+)")
_UNKNOWN = re.compile(r"Unsupported version of Python: (\S+)")
_PROCESS = re.compile(r'(?P<process>\bprocess \d+:)"(?P<command>[^\n]*?)"(?=;(?:process \d+:"|thread \())')
_NO_PYTHON = ("failed to find python version", "failed to find python interpreter", "no python processes found")
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
WITH_CHILDREN = ("--subprocesses",)


class SpyResult(NamedTuple):
    """Result of py-spy: `text` is read by `read_collapsed`; `failed` samples could not be taken; `cost_s` is its CPU
    time until it was told to end; `interrupted` is set if Ctrl-C ended it."""

    text: str
    seconds: float
    failed: int
    cost_s: float = 0.0
    interrupted: bool = False


class StackSpy:
    """py-spy, which samples all threads of a process, including waiting ones, until it is ended.

    It ends with the process, and at the Ctrl-C of a terminal, which does not reach it if it is `apart`.

    Args:
        pid: the process.
        file: output file, written at the end.
        hz: samples per second.
        options: further options of py-spy.
    """

    def __init__(self, pid: int, file: Path, *, hz: int, options: Sequence[str] = (), apart: bool = False) -> None:
        command = [
            _find_spy(),
            "record",
            "--pid",
            str(pid),
            "--threads",
            "--idle",
            "--full-filenames",
            "--format",
            "raw",
        ]
        command += ["--rate", str(hz), "--output", str(file.absolute()), *options]
        self._pid = pid
        self._file = file
        file.unlink(missing_ok=True)  # of an earlier look
        self._apart = apart
        self._cost_s = 0.0
        self._began = time.monotonic()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=apart
        )

    def end(self) -> None:
        """Have it end now."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
            self._cost_s = times.user + times.system
        except psutil.Error:  # it has ended already
            pass
        self._process.send_signal(signal.SIGINT)

    def collect_result(self, within_s: float) -> SpyResult:
        """Wait for py-spy and return its result. Where it is not `apart`, a Ctrl-C only ends it.

        Raises `PerfkitError`, with what to do, where it failed.
        """
        interrupted = False
        with self._process as process:
            try:
                output, _ = process.communicate(timeout=within_s)
            except KeyboardInterrupt:
                if self._apart:
                    process.kill()
                    raise
                interrupted = True
                output, _ = process.communicate(timeout=_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise PerfkitError(f"py-spy did not end within {within_s:.0f} s") from None
        seconds = time.monotonic() - self._began
        if process.returncode == -signal.SIGINT:
            raise PerfkitError("the loop ended before py-spy started")
        if process.returncode or not self._file.is_file():
            raise explain_failure(self._pid, output)
        failed = _FAILED.search(output)
        written = self._file.read_text(encoding="utf-8", errors="replace")
        text = _redact_commands(written)
        if text != written:
            write_bytes(self._file, text.encode())
        return SpyResult(text, seconds, int(failed[1]) if failed else 0, self._cost_s, interrupted)


def _redact_commands(text: str) -> str:
    """Stacks without the secrets of the command lines by which py-spy names processes."""
    shown: dict[str, str] = {}  # each stands in many lines

    def redact(match: re.Match[str]) -> str:
        command = match["command"]
        if command not in shown:
            shown[command] = redact_text(command)
        return f'{match["process"]}"{shown[command]}"'

    return _PROCESS.sub(redact, text)


def end_spies(spies: Sequence[StackSpy]) -> list[SpyResult]:
    """Have all of them end now; raises as `Spy.seen` does, when none runs any more."""
    for spy in spies:
        spy.end()
    ended: list[SpyResult | PerfkitError] = []
    for spy in spies:
        try:
            ended.append(spy.collect_result(_WITHIN_S))
        except PerfkitError as error:
            ended.append(error)
    for result in ended:
        if isinstance(result, PerfkitError):
            raise result
    return [result for result in ended if isinstance(result, SpyResult)]


def spy_on_process(pid: int, file: Path, *, seconds: float, hz: int) -> SpyResult:
    """Sample a process and its children for some time, which stand still for each sample: stacks that are read while
    they change are wrong without saying so.

    Ends earlier with the process, or at Ctrl-C; what was seen until then is kept. Raises `PerfkitError`, with what to
    do, where nothing can be seen.
    """
    duration = ("--duration", f"{max(1, round(seconds))}")
    seen = StackSpy(pid, file, hz=hz, options=(*WITH_CHILDREN, *duration)).collect_result(seconds + _WITHIN_S)
    if not seen.text:
        raise explain_failure(pid, "")
    return seen._replace(seconds=min(seen.seconds, seconds))


def dump_stacks(pid: int) -> list[dict[str, Any]]:
    """The stack of each thread of a process, with the local variables of each call, as py-spy's JSON has them.

    Raises `PerfkitError`, with what to do, where nothing can be seen.
    """
    command = [_find_spy(), "dump", "--pid", str(pid), "--full-filenames", "--locals", "--json"]
    try:
        dumped = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    except subprocess.TimeoutExpired:
        raise PerfkitError(f"py-spy did not end within {_WITHIN_S:.0f} s") from None
    if dumped.returncode:
        raise explain_failure(pid, dumped.stderr)
    threads: list[dict[str, Any]] = json.loads(dumped.stdout)
    return threads


def _find_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    path = str(beside) if beside.is_file() else shutil.which("py-spy")
    if path is None:
        raise make_missing_package_error("py-spy", "py-spy")
    return path


def explain_failure(pid: int, output: str, *, scope: Callable[[], str] = lambda: explain_scope()) -> PerfkitError:
    """Explain in one line, from py-spy's `output`, why it did not see process `pid`, and what to do."""
    lowered = output.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered:
        return UnavailableError(f"process {pid} cannot be inspected; {scope()}")
    if unknown := _UNKNOWN.search(output):
        return PerfkitError(
            f"process {pid} runs Python {unknown[1]}, which this py-spy does not support; upgrade it: pip "
            "install --upgrade py-spy"
        )
    if any(words in lowered for words in _NO_PYTHON):
        return PerfkitError(
            f"process {pid} does not run a Python that py-spy supports; give the process that runs the training"
        )
    if "no such process" in lowered or "no such file" in lowered or "check that the process is running" in lowered:
        return PerfkitError(f"process {pid} ended before it could be sampled")
    lines = [line.removeprefix("Error: ") for line in output.splitlines() if line.strip()]
    return PerfkitError(f"py-spy took no samples of process {pid}: {lines[0] if lines else 'no reason given'}")


def explain_scope() -> str:
    """Explain why ptrace is forbidden here."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return "in a container, start it with --cap-add SYS_PTRACE (Kubernetes: capabilities.add SYS_PTRACE)"
    if SCOPE.is_file() and SCOPE.read_text().strip() != "0":
        return "run perfkit with sudo, or allow it until the next boot: sudo sysctl kernel.yama.ptrace_scope=0"
    return "run perfkit with sudo; in a container, start the container with --cap-add SYS_PTRACE"
