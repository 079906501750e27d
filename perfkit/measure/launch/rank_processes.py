"""The process of one rank: where it runs, how it is started, and how it is ended."""

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from perfkit.core.errors import UsageError
from perfkit.core.files import open_log
from perfkit.core.spec import LaunchSpec
from perfkit.devices.accelerator import NCCL, get_accelerator
from perfkit.devices.machine.mig import build_instance_variables
from perfkit.measure.launch.dump_mark import dump_limit_s, find_marks
from perfkit.measure.launch.network import GLOO_INTERFACES
from perfkit.store.layout import OUTPUT_FILE, WATCHDOG_DUMP, get_rank_folder


@dataclass(frozen=True, kw_only=True)
class RankPlace:
    """Place of a run's ranks: the working folder (None: this process's own), the Python interpreter (None: likewise),
    and environment variables to add, or to remove if None."""

    folder: Path | None = None
    environment: Mapping[str, str | None] = field(default_factory=dict)
    interpreter: Path | None = None


HERE = RankPlace()
COMPILE_CACHE = "TORCHINDUCTOR_CACHE_DIR"  # of all of torch.compile's caches on disk, Triton's too
_MARK = "PERFKIT_RANK_MARK"
_GENTLY_S = 5.0
_LOOK_S = 0.02

# Once a rank has failed, the others wait for it in a collective: they get this long to end on their own.
GRACE_S = 10.0

# glibc serves requests of this size or more outside its heaps, and returns them when freed. By default it raises the
# threshold, up to 32 MiB, whenever a larger block is freed, and then its heaps keep the holes between tensors, which
# use up a limited address space. mallopt(3), M_MMAP_THRESHOLD; this is its initial value.
_MAPPED_APART = "MALLOC_MMAP_THRESHOLD_"
_MAPPED_APART_BYTES = 128 * 2**10


def start_rank(
    module: str,
    launch: LaunchSpec,
    folder: Path,
    rank: int,
    *,
    under: Sequence[str] = (),
    place: RankPlace = HERE,
    obeys: bool = False,
) -> "RankProcess":
    """Start `python -m MODULE FOLDER` as one rank of a run; its standard output is a pipe, and its input if it `obeys`.

    What it prints to standard error goes to the rank's log.
    """
    log = get_rank_folder(folder, rank) / OUTPUT_FILE
    return start_process(
        module, folder, log, build_rank_variables(launch, rank, folder), place, under=under, obeys=obeys
    )


def start_process(
    module: str,
    folder: Path,
    log: Path,
    variables: Mapping[str, str],
    place: RankPlace,
    *,
    under: Sequence[str] = (),
    obeys: bool = False,
    arguments: Sequence[str] = (),
) -> "RankProcess":
    """Start `python -m MODULE FOLDER ...` with these variables added to its environment; its errors go to a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_log(log) as output:
        return RankProcess(
            [*under, str(place.interpreter or sys.executable), "-m", module, str(folder.absolute()), *arguments],
            stdin=subprocess.PIPE if obeys else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            cwd=place.folder,
            env=_build_environment(variables, place),
            folder=log.parent,
        )


def _build_environment(variables: Mapping[str, str], place: RankPlace) -> dict[str, str]:
    merged = {**os.environ, **variables, **place.environment}
    return {name: value for name, value in merged.items() if value is not None}


class RankProcess(subprocess.Popen[bytes]):
    """A rank in its own session: Ctrl-C reaches only the parent, which then ends the ranks in order.

    Its children inherit a variable that is unique to the rank, by which they are found anywhere. `folder` is the
    rank's, or the run's if the process starts its ranks.
    """

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], folder: Path | None = None, **options: Any
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.folder = folder
        super().__init__(command, env={**env, _MARK: self.mark}, start_new_session=True, **options)


def end_ranks(processes: Sequence[RankProcess]) -> None:
    """End ranks and all their children (compile workers, samplers), gently first, without reading their output."""
    kill_ranks(processes)
    for process in processes:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # unread input
                    pipe.close()


def kill_ranks(processes: Sequence[RankProcess]) -> None:
    """End ranks and all their children; another thread may still read their output.

    All are signaled at once, so that each can report its wait before another's end breaks it. Children in other
    sessions are ended as well, on systems that expose a process's environment.
    """
    alive = [process for process in processes if process.poll() is None]
    for process in alive:
        _send_signal(process, signal.SIGTERM)
    await_ends(alive)
    for process in processes:
        _send_signal(process, signal.SIGKILL)
        process.wait()
        for mark in _marks(process):  # of one that was killed as it wrote
            mark.unlink(missing_ok=True)
    for stray in _find_strays({process.mark for process in processes}):
        with contextlib.suppress(psutil.Error):  # it has ended
            stray.kill()


def await_ends(
    processes: Sequence[RankProcess],
    *,
    gently_s: float = _GENTLY_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until terminated processes have ended: for `gently_s`, and while one of them writes its flight record for
    `dump_limit_s`."""
    start, alive = clock(), list(processes)
    while alive := [process for process in alive if process.poll() is None]:
        passed = clock() - start
        is_writing = passed < dump_limit_s() and any(_marks(process) for process in alive)
        if passed >= gently_s and not is_writing:
            return
        sleep(_LOOK_S)


def _marks(process: RankProcess) -> list[Path]:
    return [] if process.folder is None else find_marks(process.folder)


def _find_strays(marks: Container[str]) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # another user's, or gone
            if process.environ().get(_MARK) in marks:
                yield process


def build_launch_variables(launch: LaunchSpec, folder: Path | None = None) -> dict[str, str]:
    """The variables that a launch adds to every rank's environment; `folder` is the run's."""
    variables = {}
    here = launch.nodes == 1 and launch.world_size > 1
    if here and sys.platform == "linux" and GLOO_INTERFACES not in os.environ:
        # All ranks are here: Gloo needs no name of this host that resolves.
        variables[GLOO_INTERFACES] = "lo"
    if launch.memory_limit_bytes is not None and _MAPPED_APART not in os.environ:
        variables[_MAPPED_APART] = str(_MAPPED_APART_BYTES)
    if launch.threads is not None:
        variables["OMP_NUM_THREADS"] = str(launch.threads)
    if get_accelerator(launch.device).backend == NCCL and launch.world_size > 1 and folder is not None:
        # Where NCCL's own watchdog ends a rank, it leaves a dump of its flight recorder that `perfkit analyze` reads.
        dumps = {
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
            "TORCH_FR_DUMP_TEMP_FILE": str(folder.absolute() / WATCHDOG_DUMP),
        }
        variables |= {name: value for name, value in dumps.items() if name not in os.environ}
    return variables


def build_rank_variables(launch: LaunchSpec, rank: int, folder: Path | None = None) -> dict[str, str]:
    """The same of one rank, with its numbers, as torchrun calls them."""
    here = count_ranks_per_node(launch)
    numbers = {"RANK": rank, "LOCAL_RANK": rank % here, "WORLD_SIZE": launch.world_size, "LOCAL_WORLD_SIZE": here}
    own = build_instance_variables(rank % here) if get_accelerator(launch.device).has_nvml else {}
    return build_launch_variables(launch, folder) | own | {name: str(number) for name, number in numbers.items()}


def count_ranks_per_node(launch: LaunchSpec) -> int:
    """Count the ranks per machine. A `UsageError` where not all have as many."""
    if launch.world_size % launch.nodes:
        raise UsageError(
            f"--nnodes {launch.nodes} needs --world-size, the total number of ranks, as a multiple of it",
            id="usage.missing_option",
        )
    return launch.world_size // launch.nodes


def refuse_endpoint(launch: LaunchSpec) -> None:
    """Raise a `UsageError` for an endpoint if the launcher's ranks find each other on their own."""
    if launch.endpoint:
        raise UsageError(
            f"--rdzv-endpoint is for --launcher torchrun; omit it with {launch.launcher}", id="usage.conflict"
        )


def _send_signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # the whole group has ended
        os.killpg(process.pid, number)
