"""Runs the ranks of a calibration, one process each, and reports the one that failed, not those that lost it."""

import queue
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from perfkit.core.errors import PerfkitError

_LATER_S = 5.0  # grace period for ranks after the first failure, to fail on their own
_LINES = 3


class LinksError(PerfkitError):
    """Ranks could not exchange messages; the message ends with what one of them said last."""

    id = "calibration.links"


def run_ranks(commands: Sequence[Sequence[str]], folder: Path, timeout_s: float) -> bytes:
    """Run a command for each rank at once, and return what rank 0 prints.

    Each rank's errors go to a file in `folder`. A rank that fails, and ranks that are not done after `timeout_s`, are a
    `LinksError`.
    """
    errors = [folder / f"rank{rank}.err" for rank in range(len(commands))]
    outputs = [folder / f"rank{rank}.out" for rank in range(len(commands))]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command, output, error in zip(commands, outputs, errors, strict=True):
            with output.open("wb") as out, error.open("wb") as err:
                processes.append(subprocess.Popen(command, stdout=out, stderr=err))
        first = _find_first_failed(processes, timeout_s)
    except TimeoutError:
        going_on = [rank for rank, process in enumerate(processes) if process.poll() is None]
        stuck = "; ".join(f"rank {rank}: {_read_last_lines(errors[rank])}" for rank in going_on)
        raise LinksError(
            f"{len(commands)} ranks did not finish their collectives within {timeout_s:g} s. {stuck}"
        ) from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    if first is not None:
        raise LinksError(
            f"rank {first} of {len(commands)} could not exchange messages: {_read_last_lines(errors[first])}"
        )
    return outputs[0].read_bytes()


def _find_first_failed(processes: Sequence[subprocess.Popen[bytes]], timeout_s: float) -> int | None:
    """Find the rank that failed before all others, once all have ended or timed out; None if all ended well."""
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()

    def tell(rank: int) -> None:
        processes[rank].wait()
        ended.put(rank)

    for rank in range(len(processes)):
        threading.Thread(target=tell, args=(rank,), daemon=True).start()
    end = time.monotonic() + timeout_s
    first: int | None = None
    for _ in processes:
        try:
            rank = ended.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            if first is None:
                raise TimeoutError from None
            return first
        if first is None and processes[rank].returncode:
            first, end = rank, min(end, time.monotonic() + _LATER_S)
    return first


def _read_last_lines(output: Path) -> str:
    lines = output.read_text(errors="replace").strip().splitlines()
    return " | ".join(lines[-_LINES:]) or "no output"
