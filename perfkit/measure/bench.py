"""Running a suite: every planned run in its own processes, saved after each, while the parent sleeps."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch

import perfkit
from perfkit.devices.ceiling import DeviceCeilings
from perfkit.devices.resolve import ceilings_for
from perfkit.errors import UsageError
from perfkit.files import write_bytes, write_json
from perfkit.instruments.ncu import ncu_command, refusal
from perfkit.measure.launch.process import launch
from perfkit.measure.launch.ranks import HERE, RankPlace
from perfkit.measure.limits import check_limits
from perfkit.measure.schedule import (
    BenchRequest,
    BenchSchedule,
    ScheduledRun,
    Techniques,
    bench_schedule,
    world_size_for,
)
from perfkit.record import Run, Status
from perfkit.spec import RunSpec
from perfkit.store.layout import (
    CEILINGS_FILE,
    COUNTERS_FILE,
    RUN_FILE,
    SPEC_FILE,
    SUITE_FILE,
    Suite,
    SuiteRun,
    counters_path,
    rank_folder,
    run_path,
)
from perfkit.techniques import dtypes
from perfkit.techniques.compose import compose
from perfkit.techniques.technique import Technique


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
    ncu: Path | None = None,
) -> Suite:
    """Run every variant of `request` into `folder`, which must not exist, and return the suite.

    A variant that is skipped or fails is not repeated. `suite.json` is written after every run, so that a
    KeyboardInterrupt, which is raised again, loses nothing that was measured. With `ncu` (Nsight Compute's command)
    every variant of one rank is then run once more with its kernels counted; why one was not is a warning of the suite.
    """
    check_limits(request.timeout_s, request.memory_limit_bytes)
    schedule = bench_schedule(request, min_world_size, dtype_refusal)
    making = SuiteInMaking(schedule, folder, command=command, ceilings=ceilings)
    for index in range(len(schedule.runs)):
        making.run(index, progress)
    if ncu is None:
        return making.suite
    specs = [item.spec for item in schedule.runs if item.repeat == 0]
    return _count(making.suite, specs, making.ended, folder, ncu, progress)


class SuiteInMaking:
    """A suite whose planned runs are made one by one; `suite.json` is written after each."""

    def __init__(self, schedule: BenchSchedule, folder: Path, *, command: str, ceilings: DeviceCeilings | None) -> None:
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} exists already: name another folder with --out, or remove it; nothing was run")
        self.suite = _new_suite(schedule, command)
        self.ended: set[str] = set()  # variants that are not run again
        self._schedule = schedule
        self._folder = folder
        write_json(folder / SUITE_FILE, self.suite)
        if ceilings is not None:
            write_json(folder / CEILINGS_FILE, ceilings)

    def run(self, index: int, progress: Callable[[Event], None], place: RankPlace = HERE) -> None:
        """Make run `index` of the schedule, in `place`, unless its variant has ended before."""
        item, total = self._schedule.runs[index], len(self._schedule.runs)
        variant = item.spec.variant
        if variant in self.ended:
            return
        path = run_path(variant, item.repeat)
        entry = SuiteRun(variant=variant, repeat=item.repeat, path=path)
        self.suite = msgspec.structs.replace(self.suite, runs=(*self.suite.runs, entry))
        write_json(self._folder / SUITE_FILE, self.suite)
        progress(RunStarted(index, total, variant, item.repeat))
        run = _run(item, self._folder / path, progress, place)
        progress(RunFinished(index, total, variant, item.repeat, run.status, run.reason, run.seconds))
        if run.status != Status.OK:
            self.ended.add(variant)


def _count(
    suite: Suite, specs: list[RunSpec], ended: set[str], folder: Path, ncu: Path, progress: Callable[[Event], None]
) -> Suite:
    """Run each variant that ended well under Nsight Compute; its counts go beside the first run's trace."""
    wanted = [spec for spec in specs if spec.variant not in ended]
    for index, spec in enumerate(wanted):
        label = f"{spec.variant} (counters)"
        progress(RunStarted(index, len(wanted), label, 0))
        run, reason = _count_one(spec, folder, ncu, progress)
        progress(RunFinished(index, len(wanted), label, 0, run.status, reason, run.seconds))
        if reason:
            warning = f"{spec.variant}: no counters: {reason}"
            suite = msgspec.structs.replace(suite, warnings=(*suite.warnings, warning))
            write_json(folder / SUITE_FILE, suite)
    return suite


def _count_one(spec: RunSpec, folder: Path, ncu: Path, progress: Callable[[Event], None]) -> tuple[Run, str]:
    """How the launch ended, and why it left no counts; empty where it did."""
    if spec.launch.world_size > 1:
        reason = "ncu runs each kernel several times, and a collective waits for ranks that run theirs once"
        return Run(status=Status.SKIPPED, reason=reason, perfkit=perfkit.__version__), reason
    own = folder / counters_path(spec.variant)
    export = own / COUNTERS_FILE
    schedule = msgspec.structs.replace(spec.schedule, timed=1, energy_s=0.0)
    once = msgspec.structs.replace(spec, passes=("counters",), schedule=schedule)
    run = launch(once, own, lambda name: progress(PassStarted(name)), under=ncu_command(ncu, export))
    reason = refusal(export)
    if run.status != Status.OK and (not reason or not export.is_file()):
        reason = f"{run.status}: {run.reason}"
    if not reason:
        write_bytes(rank_folder(folder / run_path(spec.variant, 0), 0) / COUNTERS_FILE, export.read_bytes())
    return run, reason


def _run(item: ScheduledRun, folder: Path, progress: Callable[[Event], None], place: RankPlace) -> Run:
    if not item.skip:
        return launch(item.spec, folder, lambda name: progress(PassStarted(name)), place=place)
    run = Run(status=Status.SKIPPED, reason=item.skip, perfkit=perfkit.__version__)
    write_json(folder / SPEC_FILE, item.spec)
    write_json(folder / RUN_FILE, run)
    return run


def min_world_size(techniques: Techniques) -> int:
    """The number of ranks that a combination of techniques needs."""
    return max((technique.min_world_size for technique in compose(techniques)), default=1)


def dtype_refusal(techniques: Techniques, device: str, dtype: str) -> str:
    """Why a combination of techniques does not run in a dtype on a kind of device; empty if it does."""
    composed = compose(techniques)
    try:
        return dtypes.refusal(composed, device, dtype)
    except Exception:  # noqa: BLE001 - another package's technique: raised anew in the run, it is this variant's alone
        return ""


def default_folder(workload: str) -> Path:
    """`runs/TIME-WORKLOAD`."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", workload).strip("-")[:60]
    return Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}-{name}"


def ceilings_of(
    request: BenchRequest, device_name: str, *, calibrate: bool, progress: Callable[[str], None] = lambda _: None
) -> DeviceCeilings:
    """What the device can at most do, with every number of threads that the runs of `request` will use."""
    runs = bench_schedule(request, min_world_size, dtype_refusal).runs
    threads = sorted({run.spec.launch.threads for run in runs if run.spec.launch.threads is not None and not run.skip})
    return ceilings_for(request.device, device_name, threads, calibrate=calibrate, progress=progress)


def standing_refusal(request: BenchRequest, technique: Technique) -> str:
    """Why a technique cannot act here, whatever goes with it; empty if it can, as far as is known before it is run."""
    _, lacking = world_size_for(request, technique.min_world_size)
    try:
        return lacking or technique.unavailable(torch.device(request.device)) or ""
    except Exception:  # noqa: BLE001 - as in `dtype_refusal`
        return ""


def _new_suite(schedule: BenchSchedule, command: str) -> Suite:
    return Suite(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        variants=schedule.variants,
        baselines=schedule.baselines,
    )
