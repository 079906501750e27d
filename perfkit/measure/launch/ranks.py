"""The process of one rank: where it runs, how it is started, and how it is ended."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perfkit.spec import LaunchSpec
from perfkit.store.layout import OUTPUT_FILE, rank_folder


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Where ranks run: their working folder (None: this process's own), and variables added to its environment."""

    folder: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


HERE = RankPlace()


def start_rank(
    module: str,
    launch: LaunchSpec,
    folder: Path,
    rank: int,
    *,
    under: Sequence[str] = (),
    place: RankPlace = HERE,
    obeys: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE FOLDER` as one rank of a run; its standard output is a pipe, and its input if it `obeys`.

    What it prints to standard error goes to the rank's log.
    """
    log = rank_folder(folder, rank) / OUTPUT_FILE
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            [*under, sys.executable, "-m", module, str(folder.absolute())],
            stdin=subprocess.PIPE if obeys else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=place.folder,
            env={**os.environ, **_variables(launch, rank), **place.environment},
            start_new_session=True,  # Ctrl-C reaches the parent alone, which then ends the ranks in order
        )


def end_rank(process: subprocess.Popen[bytes]) -> None:
    """End a rank and everything it started (compile workers, samplers), gently first."""
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=2.0)
    _signal(process, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # what it was sent last and never read
                pipe.close()


def _variables(launch: LaunchSpec, rank: int) -> dict[str, str]:
    variables = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(launch.world_size)}
    if launch.world_size > 1 and sys.platform == "linux" and "GLOO_SOCKET_IFNAME" not in os.environ:
        # All ranks are here: Gloo needs no name of this host that resolves.
        variables["GLOO_SOCKET_IFNAME"] = "lo"
    if launch.threads is not None:
        variables["OMP_NUM_THREADS"] = str(launch.threads)
    return variables


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the whole group has ended
        os.killpg(process.pid, number)
