"""Running a suite: every planned run in its own processes, saved after each, while the parent sleeps."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import perfkit
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.errors import UsageError
from perfkit.files import write_json
from perfkit.launch.process import launch
from perfkit.plan import BenchRequest, Plan, PlannedRun, Techniques, plan
from perfkit.record import Run, Status
from perfkit.store.layout import CEILINGS_FILE, RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun, run_path
from perfkit.techniques.compose import compose


@dataclass(frozen=True)
class RunStarted:
    """Run `index` of `total` begins."""

    index: int
    total: int
    variant: str
    repeat: int


@dataclass(frozen=True)
class PassStarted:
    """The running worker enters a pass."""

    name: str


@dataclass(frozen=True)
class RunFinished:
    """The run has ended; `reason` says why where it is not ok."""

    index: int
    total: int
    variant: str
    repeat: int
    status: Status
    reason: str
    seconds: float


Event = RunStarted | PassStarted | RunFinished


def bench(
    request: BenchRequest,
    folder: Path,
    *,
    command: str,
    ceilings: DeviceCeilings | None,
    progress: Callable[[Event], None],
) -> Suite:
    """Run every variant of `request` into `folder`, which must not exist, and return the suite.

    A variant that is skipped or fails is not repeated. `suite.json` is written after every run, so that a
    KeyboardInterrupt, which is raised again, loses nothing that was measured.
    """
    schedule = plan(request, min_world_size)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists already: name another folder with --out, or remove it; nothing was run")
    suite = _new_suite(schedule, command)
    write_json(folder / SUITE_FILE, suite)
    if ceilings is not None:
        write_json(folder / CEILINGS_FILE, ceilings)
    ended: set[str] = set()
    for index, item in enumerate(schedule.runs):
        variant = item.spec.variant
        if variant in ended:
            continue
        path = run_path(variant, item.repeat)
        entry = SuiteRun(variant=variant, repeat=item.repeat, path=path)
        suite = msgspec.structs.replace(suite, runs=(*suite.runs, entry))
        write_json(folder / SUITE_FILE, suite)
        progress(RunStarted(index, len(schedule.runs), variant, item.repeat))
        run = _run(item, folder / path, progress)
        progress(RunFinished(index, len(schedule.runs), variant, item.repeat, run.status, run.reason, run.seconds))
        if run.status != Status.OK:
            ended.add(variant)
    return suite


def _run(item: PlannedRun, folder: Path, progress: Callable[[Event], None]) -> Run:
    if not item.skip:
        return launch(item.spec, folder, lambda name: progress(PassStarted(name)))
    run = Run(status=Status.SKIPPED, reason=item.skip, perfkit=perfkit.__version__)
    write_json(folder / SPEC_FILE, item.spec)
    write_json(folder / RUN_FILE, run)
    return run


def min_world_size(techniques: Techniques) -> int:
    """The number of ranks that a combination of techniques needs."""
    return max((technique.min_world_size for technique in compose(techniques)), default=1)


def _new_suite(schedule: Plan, command: str) -> Suite:
    return Suite(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        variants=schedule.variants,
        baselines=schedule.baselines,
    )
