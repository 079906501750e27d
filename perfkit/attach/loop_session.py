"""The state of a watched loop: what is trained, the rank, and the folder."""

import sys
import time
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from weakref import WeakSet

import msgspec
import torch
from torch import nn
from torch.optim import Optimizer

import perfkit
from perfkit.attach.host.budget import OVERHEAD, RecordingBudget
from perfkit.attach.host.guard import LOG
from perfkit.attach.host.profiler_turn import ProfilerTurn
from perfkit.attach.host.run_folder import claim_folder
from perfkit.attach.host.run_report import find_refuted_ceilings
from perfkit.attach.host.world import get_world, share_decision
from perfkit.attach.live.live_watch import LiveWatch
from perfkit.attach.live.scalars import SCALARS
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.attach.loop.model_discovery import drop_contained_roots, find_roots, find_trained_roots, name_models
from perfkit.attach.loop.step_units import StepUnits
from perfkit.attach.variant_recording import VariantRecording
from perfkit.attach.wall_time.ledger import WallTimeLedger
from perfkit.core.errors import PerfkitError
from perfkit.core.files import write_bytes, write_json
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec
from perfkit.core.texts.redact import format_command
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.calibration.kernel_timing import format_threads
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit.devices.ceilings.exceeded_ceilings import split_explanation
from perfkit.devices.lookup.ceiling_lookup import resolve_ceilings
from perfkit.instruments.autograd_state import is_profiling
from perfkit.instruments.graph_capture import is_capturing
from perfkit.instruments.range_marks import mark_step
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.store.layout import CEILINGS_FILE, RUN_FILE, SPEC_FILE, SUITE_FILE, Suite, SuiteRun, get_run_path
from perfkit.store.price import Price
from perfkit.store.summary import PLAN_FILE
from perfkit.techniques.base.state import World


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The author's options. `ranks` are traced and their memory is recorded; None: all. Stacks are sampled `stacks_hz`
    times per second, 0 for never. `overhead` and `max_memory` (bytes) limit the cost of recordings
    (`perfkit.attach.host.budget`). `plan` is the content of a plan to compare the loop with, `price`
    that of all that the run uses. With `pm_sampling` traces
    have samples of the GPU's performance monitors."""

    folder: Path
    name: str
    models: dict[str, nn.Module]
    schedule: Schedule
    units_per_step: float | None
    unit: str
    ranks: tuple[int, ...] | None = None
    stacks_hz: int = 0
    overhead: float = OVERHEAD
    max_memory: float | None = None
    plan: bytes | None = None
    price: Price | None = None
    pm_sampling: bool = False


class LoopSession:
    """One rank's watching of one loop.

    Attributes:
        steps: how many boundaries there were.
        budget: what recordings may cost.
        profiler: whose turn it is with torch's profiler.
        ledger: the parts of the program's wall time.
        main: the recording that begins with the loop; None until the first boundary.
        watch: of a loop that is watched all the time.
        folder: that of the run; until `main` begins, the one that was asked for.
        world: the ranks, and `trained` what they train, from `roots` down; known from when `main` begins.
    """

    def __init__(self, wishes: LoopOptions, loop: LoopFollower) -> None:
        self.wishes = wishes
        self.loop = loop
        self.profiler = ProfilerTurn()
        self.ledger = WallTimeLedger()
        self.budget = RecordingBudget(wishes.overhead, wishes.max_memory)
        self.steps = 0
        self.main: VariantRecording | None = None
        self.watch: LiveWatch | None = None
        self.ceilings: DeviceCeilings | None = None
        self.folder = wishes.folder
        self.world = World()
        self.roots: tuple[nn.Module, ...] = ()
        self.trained = TrainedModels(torch.device("cpu"), {}, ())
        self._began = datetime.now(UTC), time.monotonic()
        self._released: WeakSet[Optimizer] = WeakSet()
        self._mark: AbstractContextManager[None] | None = None
        self._created_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._suite: Suite | None = None
        self._threads = 1

    @property
    def schedule(self) -> Schedule:
        """The number of steps of each kind for this rank."""
        wishes = self.wishes
        if wishes.ranks is None or self.world.rank in wishes.ranks:
            return wishes.schedule
        return msgspec.structs.replace(wishes.schedule, trace=0, memory=0)

    def open(self) -> VariantRecording:
        """Find the trained model and its device, claim the folder, and write what is known."""
        self.world = get_world()
        self.look()
        self._threads = torch.get_num_threads()
        self.folder = Path(share_decision(self.world, "folder", lambda: str(claim_folder(self.wishes.folder))))
        self.main = self.begin(self.wishes.name)
        self.ceilings = self._resolve_ceilings()
        if self.world.rank == 0:
            write_json(self.folder / CEILINGS_FILE, self.ceilings)
            if self.wishes.plan is not None:
                write_bytes(self.folder / PLAN_FILE, self.wishes.plan)
        return self.main

    def look(self) -> TrainedModels:
        """Find what the optimizers seen so far train; without any, the tensors with gradients."""
        self.roots = tuple(self.wishes.models.values()) or find_trained_roots(self.loop.optimizers)
        if not self.roots and not self.loop.optimizers:
            self.loop.passes.look()
            self.roots = find_roots(self.loop.passes.holders)
        models = self.wishes.models or name_models(drop_contained_roots(self.roots))
        self.trained = TrainedModels(_find_device(self.roots), models, self.loop.optimizers)
        self.loop.device = self.trained.device.type
        self.loop.heard = False  # these models have not been listened to yet
        return self.trained

    def calibrate(self) -> None:
        """Calibrate this CPU with the threads of a rank, unless it was: torchrun gives each rank one thread, which may
        be a new setting. The result is kept, so this happens once per machine."""
        known = self.ceilings
        if self.main is None or known is None or not is_cpu(known.device) or not self.main.instrumented_s.get("trace"):
            return
        threads = self._threads
        if any(ceiling.threads == threads for ceiling in known.ceilings):
            return
        LOG.warning("perfkit measures this CPU's ceilings with %s, once, in about 10 s", format_threads(threads))
        self.ceilings = self._resolve_ceilings(calibrate=True)
        write_json(self.folder / CEILINGS_FILE, self.ceilings)

    def remeasure_ceilings(self) -> bool:
        """Calibrate again the ceilings that steps exceeded by the report; returns True if there is something new to
        draw.

        A GPU is left to the next command: the program still holds its memory.
        """
        known, beaten = self.ceilings, find_refuted_ceilings(self.folder)
        if known is None or not beaten:
            return False
        ceilings_cache.refute_ceilings(known.fingerprint, beaten)
        if not is_cpu(known.device):
            return False
        LOG.warning(
            "%s; perfkit measures it again with %s, in about 10 s",
            split_explanation(beaten[0].exceeded_by)[0],
            format_threads(self._threads),
        )
        self.ceilings = self._resolve_ceilings(calibrate=True)
        write_json(self.folder / CEILINGS_FILE, self.ceilings)
        return True

    def is_capturing(self) -> bool:
        """True while a CUDA graph is being captured; on the current device until the loop's is known."""
        return is_capturing(self.trained.device)

    def let_go(self) -> None:
        """Release what is trained: the program may want its memory back."""
        if self.main is None:
            return
        self._released.update(self.trained.optimizers)
        self.roots, self.trained = (), TrainedModels(self.trained.device, {}, ())
        self.loop.let_go()
        self.main.let_go(self.trained)

    def sum_versions(self) -> int:
        """Sum the versions of all that the released optimizers update: it changes with each update, hooks or not."""
        groups = (group for optimizer in [*self._released] for group in optimizer.param_groups)
        return sum(parameter._version for group in groups for parameter in group["params"])

    def begin(self, variant: str, trigger: str = "") -> VariantRecording:
        """Start a separate recording; those after the first are compared with it."""
        path = get_run_path(variant, 0)
        if self.world.rank == 0:
            self._write_suite(variant, path)
            write_json(self.folder / path / SPEC_FILE, self._build_spec())
        self._began = datetime.now(UTC), time.monotonic()
        return VariantRecording(
            self.folder / path,
            self.loop,
            self.trained,
            self.world,
            trigger=trigger,
            budget=self.budget,
            ledger=self.ledger,
        )

    def write_timing(self, recording: VariantRecording) -> StepUnits:
        wishes = self.wishes
        return recording.write_timing(wishes.name, self.steps, units_per_step=wishes.units_per_step, unit=wishes.unit)

    def end(self, recording: VariantRecording, status: RunStatus, reason: str = "", traceback: str = "") -> None:
        """Write how a recording ended, on rank 0 for all."""
        if recording.recorder.record.workload is None:  # the loop ended before all timed steps were through
            self.write_timing(recording)
        recording.close(self.steps, status, reason, traceback)
        self._write_run(recording, status, reason)

    def abandon(self, reason: str) -> None:
        """Write why nothing more is recorded, where the recording had not ended and its folder can be written."""
        if self.main is not None and not (self.main.folder / RUN_FILE).exists():
            with suppress(OSError, PerfkitError):  # on a full disk
                if self.main.recorder.record.status == RunStatus.CRASHED:
                    self.main.recorder.update(status=RunStatus.FAILED, reason=reason)
                self._write_run(self.main, RunStatus.FAILED, reason)

    def collect_figures(self, recording: VariantRecording) -> dict[str, float]:
        """Collect the figures of the timed steps by tracker name, without unknown ones."""
        record = recording.recorder.record
        times = record.samples.device_s or record.samples.wall_s
        if not times:
            return {}
        assert record.workload is not None
        assert record.memory is not None
        waits = record.attached_loop.data_wait_s if record.attached_loop is not None else ()
        step_s = median(times)
        known: dict[str, float | None] = {
            "step_s": step_s,
            "step_max_s": max(times),
            "data_wait_s": fmean(waits) if waits else None,
            "units_per_s": record.workload.units_per_batch / step_s if record.workload.units_per_batch else None,
            "allocated_bytes": get_value(record.memory.allocated),
            "reserved_bytes": get_value(record.memory.reserved),
            "rss_bytes": get_value(record.memory.rss),
        }
        return {SCALARS[field].name: value for field, value in known.items() if value is not None}

    def mark_step(self) -> None:
        """Mark the start of a step with a range for instruments; without one, the mark is not worth its time."""
        if self.profiler.ours and is_profiling():
            self._mark = mark_step(self.steps)
            self._mark.__enter__()

    def unmark_step(self) -> None:
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
        self._mark = None

    def _write_run(self, recording: VariantRecording, status: RunStatus, reason: str) -> None:
        if self.world.rank == 0:
            started_at, start = self._began
            run = RunResult(
                status=status,
                reason=reason,
                started_at=started_at.isoformat(timespec="seconds"),
                seconds=time.monotonic() - start,
                perfkit=perfkit.__version__,
                load=recording.load,
            )
            write_json(recording.folder / RUN_FILE, run)

    def _write_suite(self, variant: str, path: str) -> None:
        before = self._suite or Suite(
            created_at=self._created_at,
            perfkit=perfkit.__version__,
            command=format_command(sys.orig_argv),
            variants=(),
            baselines={},
            price=self.wishes.price,
        )
        self._suite = msgspec.structs.replace(
            before,
            variants=(*before.variants, variant),
            baselines={**before.baselines, variant: before.variants[0]} if before.variants else {},
            runs=(*before.runs, SuiteRun(variant=variant, repeat=0, path=path)),
        )
        write_json(self.folder / SUITE_FILE, self._suite)

    def _build_spec(self) -> RunSpec:
        return RunSpec(
            workload=WorkloadSpec(name=self.wishes.name),
            schedule=self.wishes.schedule,
            launch=LaunchSpec(
                device=self.trained.device.type, world_size=self.world.size, threads=torch.get_num_threads()
            ),
            passes=("trace", "memory"),
        )

    def _resolve_ceilings(self, *, calibrate: bool = False) -> DeviceCeilings:
        where = None if self.main is None else self.main.recorder.record.environment
        assert where is not None
        return resolve_ceilings(where.device, where.device_name, [self._threads], calibrate=calibrate)


def _find_device(roots: tuple[nn.Module, ...]) -> torch.device:
    """The device with most bytes of parameters."""
    sizes: dict[torch.device, int] = {}
    for root in roots:
        for parameter in root.parameters():
            sizes[parameter.device] = sizes.get(parameter.device, 0) + parameter.nbytes
    return max(sizes, key=lambda device: sizes[device], default=torch.device("cpu"))
