"""Launching a run on this machine, a process a rank or by torchrun, with the parent asleep while they measure."""

import os
import selectors
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.errors import Terminated
from perfkit.files import write_json
from perfkit.instruments.load import load_between, read_load
from perfkit.measure.launch.outcome import outcome
from perfkit.measure.launch.ranks import HERE, RankPlace, RankProcess, end_ranks, start_rank
from perfkit.measure.launch.torchrun import end_others, exits_of, start_agent
from perfkit.record import Run, Status
from perfkit.spec import LaunchSpec, RunSpec
from perfkit.store.layout import RUN_FILE, SPEC_FILE

# Once a rank has failed, the others wait for it in a collective: they get this long to end by themselves.
GRACE_S = 10.0


@dataclass
class _Rank:
    """A rank, or as rank 0 the agent that starts all."""

    process: RankProcess
    rank: int


def launch(
    spec: RunSpec, folder: Path, report: Callable[[str], None], *, under: Sequence[str] = (), place: RankPlace = HERE
) -> Run:
    """Run `spec` in `folder`, which must not hold a run, and return how it ended; `run.json` says the same.

    `report` gets the name of each pass as rank 0 enters it. `under` is the command of a profiler that starts each
    rank's process, put before its own command line; `place` is where the processes run. A KeyboardInterrupt ends the
    ranks, is written down as the run's status, and is raised again.
    """
    folder.mkdir(parents=True)
    write_json(folder / SPEC_FILE, spec)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    start, before = time.monotonic(), read_load()
    ranks = _start(spec.launch, folder, under, place)
    ended: Status | None = None
    terminated = False
    order: list[int] = []
    try:
        ended = _wait(ranks, spec.launch.timeout_s, report, order)
    except KeyboardInterrupt as error:
        ended = Status.INTERRUPTED
        terminated = isinstance(error, Terminated)
        raise
    finally:
        end_ranks([item.process for item in ranks])
        end_others(spec.launch)
        run = msgspec.structs.replace(
            outcome(spec, folder, ended, *_exits(spec.launch, folder, ranks, order), terminated),
            started_at=started_at,
            seconds=time.monotonic() - start,
            perfkit=perfkit.__version__,
            load=load_between(before, read_load()),
        )
        write_json(folder / RUN_FILE, run)
    return run


def _start(launch: LaunchSpec, folder: Path, under: Sequence[str], place: RankPlace) -> list[_Rank]:
    if launch.launcher == "torchrun":
        return [_Rank(start_agent(launch, folder, place=place), 0)]
    return [
        _Rank(start_rank("perfkit.measure.worker", launch, folder, rank, under=under, place=place), rank)
        for rank in range(launch.world_size)
    ]


def _exits(
    launch: LaunchSpec, folder: Path, ranks: list[_Rank], order: list[int]
) -> tuple[tuple[int | None, ...], list[int]]:
    """The exit codes of ranks, and those that ended by themselves, the first one first."""
    codes = tuple(item.process.returncode for item in ranks)
    return exits_of(folder, launch, codes[0]) if launch.launcher == "torchrun" else (codes, order)


def _wait(ranks: list[_Rank], timeout_s: float, report: Callable[[str], None], order: list[int]) -> Status | None:
    """Sleep until all ranks have closed their progress channel. TIMEOUT if they did not in time, else None.

    `order` gets the ranks as they end.
    """
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
                    order.append(rank.rank)
                    if rank.process.wait() != 0 and not failed:
                        failed = True
                        deadline = min(deadline, time.monotonic() + GRACE_S)
    return None
