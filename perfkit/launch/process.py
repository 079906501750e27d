"""Launching a run on this machine: one process per rank, with the parent asleep while they measure."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.files import write_json
from perfkit.launch.outcome import outcome
from perfkit.record import Run, Status
from perfkit.spec import RunSpec
from perfkit.store.layout import OUTPUT_FILE, RUN_FILE, SPEC_FILE, rank_folder

# Once a rank has failed, the others wait for it in a collective: they get this long to end by themselves.
GRACE_S = 10.0


@dataclass
class _Rank:
    process: subprocess.Popen[bytes]
    rank: int


def launch(spec: RunSpec, folder: Path, report: Callable[[str], None], *, under: Sequence[str] = ()) -> Run:
    """Run `spec` in `folder`, which must not hold a run, and return how it ended; `run.json` says the same.

    `report` gets the name of each pass as rank 0 enters it. `under` is the command of a profiler that starts each
    rank's process, put before its own command line. A KeyboardInterrupt ends the ranks, is written
    down as the run's status, and is raised again.
    """
    folder.mkdir(parents=True)
    write_json(folder / SPEC_FILE, spec)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    start = time.monotonic()
    ranks = [_start(spec, folder, rank, under) for rank in range(spec.launch.world_size)]
    ended: Status | None = None
    try:
        ended = _wait(ranks, spec.launch.timeout_s, report)
    except KeyboardInterrupt:
        ended = Status.INTERRUPTED
        raise
    finally:
        for item in ranks:
            _end(item.process)
        run = msgspec.structs.replace(
            outcome(spec, folder, ended, tuple(item.process.returncode for item in ranks)),
            started_at=started_at,
            seconds=time.monotonic() - start,
            perfkit=perfkit.__version__,
        )
        write_json(folder / RUN_FILE, run)
    return run


def _start(spec: RunSpec, folder: Path, rank: int, under: Sequence[str]) -> _Rank:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(spec.launch.world_size),
    }
    if spec.launch.world_size > 1 and sys.platform == "linux":
        # All ranks are here: Gloo needs no name of this host that resolves.
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if spec.launch.threads is not None:
        environment["OMP_NUM_THREADS"] = str(spec.launch.threads)
    log = rank_folder(folder, rank) / OUTPUT_FILE
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*under, sys.executable, "-m", "perfkit.worker", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the ranks in order
        )
    return _Rank(process, rank)


def _wait(ranks: list[_Rank], timeout_s: float, report: Callable[[str], None]) -> Status | None:
    """Sleep until all ranks have closed their progress channel. TIMEOUT if they did not in time, else None."""
    deadline = time.monotonic() + timeout_s
    failed = False
    with selectors.DefaultSelector() as selector:
        for item in ranks:
            assert item.process.stdout is not None
            selector.register(item.process.stdout, selectors.EVENT_READ, item)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return None if failed else Status.TIMEOUT
            for key, _ in ready:
                rank: _Rank = key.data
                data = os.read(key.fd, 65536)
                if rank.rank == 0:
                    for line in data.decode(errors="replace").splitlines():
                        report(line)
                if not data:
                    selector.unregister(key.fileobj)
                    if rank.process.wait() != 0 and not failed:
                        failed = True
                        deadline = min(deadline, time.monotonic() + GRACE_S)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a rank and everything it started (compile workers, samplers), gently first."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2.0)
    _signal(process, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the whole group has ended
        os.killpg(process.pid, number)
