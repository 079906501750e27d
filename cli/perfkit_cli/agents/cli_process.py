"""Runs a command of perfkit as a process, for its JSON."""

import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from anyio.abc import ByteReceiveStream, Process

from perfkit.workloads.user_code import NO_USER_CODE
from perfkit_cli.options.json_option import JSON_FLAG

Progress = Callable[[float, str], Awaitable[None]]

_HEARTBEAT_S = 5.0
_GRACE_S = 20.0  # of a bench that is interrupted, which keeps its results
_STDERR_LINES = 20


class CommandResult(NamedTuple):
    """The JSON of a command, and its exit code."""

    content: dict[str, Any]
    exit_code: int


class CommandError(Exception):
    """A command that failed, with the id of its error."""

    def __init__(self, message: str, id: str) -> None:
        super().__init__(f"{message} [{id}]")
        self.id = id


async def run_command(
    arguments: Sequence[str], folder: Path, progress: Progress, *, user_code: bool = False
) -> CommandResult:
    """Run `perfkit ARGUMENTS --json` in a folder; `progress` is awaited with seconds and the last line of its log.

    Without `user_code` the process refuses to load a workload of the user's. A command without an object on standard
    output, or with an error in it, is a `CommandError`. A cancellation interrupts the process.
    """
    command = [sys.executable, "-m", "perfkit_cli", arguments[0], JSON_FLAG, *arguments[1:]]
    environment = {**os.environ, **({} if user_code else {NO_USER_CODE: "1"})}
    output = bytearray()
    log: deque[str] = deque(maxlen=_STDERR_LINES)
    process = await anyio.open_process(command, stdin=subprocess.DEVNULL, cwd=folder, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with anyio.create_task_group() as reports:
            reports.start_soon(_report_progress, log, progress)
            async with anyio.create_task_group() as readers:
                readers.start_soon(_collect_output, process.stdout, output)
                readers.start_soon(_collect_lines, process.stderr, log)
                code = await process.wait()
                # What the process left running may hold its output open.
                readers.cancel_scope.deadline = anyio.current_time() + _HEARTBEAT_S
            reports.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await _end_process(process)
    return _read_result(bytes(output), code, log)


async def _collect_output(stream: ByteReceiveStream, output: bytearray) -> None:
    async for chunk in stream:
        output.extend(chunk)


async def _collect_lines(stream: ByteReceiveStream, log: deque[str]) -> None:
    rest = ""
    async for chunk in stream:
        *lines, rest = (rest + chunk.decode(errors="replace")).replace("\r", "\n").split("\n")
        log.extend(filter(None, map(str.strip, lines)))
    if rest.strip():
        log.append(rest.strip())


async def _report_progress(log: deque[str], progress: Progress) -> None:
    began = anyio.current_time()
    while True:
        await anyio.sleep(_HEARTBEAT_S)
        await progress(anyio.current_time() - began, log[-1] if log else "running")


async def _end_process(process: Process) -> None:
    """Terminate a process that still runs, which ends its own children; kill it where it does not end.

    It is in the server's process group, so that it ends with a server that is killed.
    """
    if process.returncode is not None:
        return
    process.terminate()
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
        return
    process.kill()
    await process.wait()


def _read_result(output: bytes, code: int, log: Sequence[str]) -> CommandResult:
    try:
        content = json.loads(output)
    except ValueError:
        message = "\n".join(log) or f"perfkit ended with exit code {code} and printed nothing"
        raise CommandError(message, "error.failed") from None
    if isinstance(content, dict) and "error" in content and len(content) == 1:
        raise CommandError(content["error"]["message"], content["error"]["id"])
    return CommandResult(content, code)
