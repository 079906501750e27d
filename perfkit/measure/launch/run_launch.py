"""Launching a run: its ranks are started by a launcher, and the parent sleeps while they measure."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.core.errors import TerminatedError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec
from perfkit.instruments.sensors.machine_load import compute_load, read_load
from perfkit.measure.launch.launcher_table import LAUNCHERS
from perfkit.measure.launch.rank_processes import HERE, RankPlace
from perfkit.measure.launch.run_outcome import determine_outcome, find_raised_ranks
from perfkit.store.layout import RUN_FILE, SPEC_FILE


def launch_run(
    spec: RunSpec, folder: Path, report: Callable[[str], None], *, under: Sequence[str] = (), place: RankPlace = HERE
) -> RunResult:
    """Run `spec` in `folder`, which must not hold a run, and return how it ended, as in `run.json`.

    `report` gets what the launcher waits for, and then the name of each pass as rank 0 enters it. `under` is a
    profiler's command, put before each rank's own; `place` is where the processes run. A KeyboardInterrupt ends the
    ranks, is recorded as the run's status, and is raised again.
    """
    folder.mkdir(parents=True)
    write_json(folder / SPEC_FILE, spec)
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    start, before = time.monotonic(), read_load()
    ranks = LAUNCHERS.load(spec.launch.launcher).start(spec, folder, place, under, report)
    ended: RunStatus | None = None
    raised: tuple[int, ...] = ()
    terminated = False
    try:
        if not ranks.wait(spec.launch.timeout_s, report):
            ended = RunStatus.TIMEOUT
            raised = find_raised_ranks(spec, folder)
    except KeyboardInterrupt as error:
        ended = RunStatus.INTERRUPTED
        terminated = isinstance(error, TerminatedError)
        raise
    finally:
        ranks.end()
        run = msgspec.structs.replace(
            determine_outcome(spec, folder, ended, ranks.exits(), terminated, raised),
            started_at=started_at,
            seconds=time.monotonic() - start,
            perfkit=perfkit.__version__,
            load=compute_load(before, read_load()),
        )
        write_json(folder / RUN_FILE, run)
    return run
