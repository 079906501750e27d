"""A few steps of a variant in separate processes, of which only the requested results are kept."""

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec, Schedule
from perfkit.measure.launch.run_launch import launch_run
from perfkit.measure.launch.run_outcome import is_killed_by_system
from perfkit.measure.run_events import Event, PassStarted, RunFinished, RunStarted
from perfkit.store.layout import get_rank_folder

T = TypeVar("T")

_SHORT = Schedule(warmup=1, timed=1)


class TrialOutcome(NamedTuple):
    """The peak of the fullest rank, None if unknown or if the run did not end well.

    `fits` is False if memory ran out, else None: whether the peak fits is for the search to say.
    """

    peak_bytes: float | None = None
    fits: bool | None = None
    reason: str = ""


def shorten_run(spec: RunSpec, passes: tuple[str, ...] = ()) -> RunSpec:
    """The run as a trial: as few steps as tell what it takes, and these passes after them."""
    return replace(spec, passes=passes, schedule=_SHORT)


def run_trial(
    spec: RunSpec, number: int, progress: Callable[[Event], None], read: Callable[[Path], T]
) -> tuple[RunResult, list[T]]:
    """Run the `number`-th trial of a search; return its result and what `read` finds in each rank's folder."""
    label = f"{spec.variant} (trial)"
    progress(RunStarted(number, number + 1, label, 0))
    # Several machines share the folder that the command is given in, and not that of temporary files.
    shared = Path.cwd() if spec.launch.nodes > 1 else None
    with tempfile.TemporaryDirectory(prefix="perfkit-trial-", dir=shared) as parent:
        folder = Path(parent) / "run"
        run = launch_run(spec, folder, lambda name: progress(PassStarted(name)))
        results = [read(get_rank_folder(folder, rank)) for rank in range(spec.launch.world_size)]
    progress(RunFinished(number, number + 1, label, 0, run.status, run.reason, run.seconds))
    return run, results


def judge_trial(run: RunResult, peaks_bytes: Iterable[float]) -> TrialOutcome:
    """The outcome of a trial of whose ranks these peaks are known."""
    if run.status != RunStatus.OK:
        no_memory = run.status == RunStatus.OUT_OF_MEMORY or is_killed_by_system(run)
        return TrialOutcome(fits=False if no_memory else None, reason=f"{run.status}: {run.reason}")
    peak = max(peaks_bytes, default=None)
    return TrialOutcome(peak, reason="memory unknown" if peak is None else "")
