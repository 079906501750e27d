"""A recording of a loop, made in one go and written as one variant of the run's suite."""

import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

import msgspec
import torch
from torch import nn

from perfkit.attach.host.budget import RecordingBudget
from perfkit.attach.loop.batch_tokens import sum_tokens
from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.attach.loop.model_discovery import unwrap_module
from perfkit.attach.loop.peak_watch import ALLOCATOR, PeakWatch
from perfkit.attach.loop.step_timing import StepSeries
from perfkit.attach.loop.step_units import PACKED, StepUnits, count_units, find_sequence_first
from perfkit.attach.wall_time.ledger import WallTimeLedger
from perfkit.core.note import Note, make_note
from perfkit.core.record.attached_loop import AttachedLoop
from perfkit.core.record.environment import DeviceSample, MachineLoad
from perfkit.core.record.rank_record import RankRecord, RunStatus, WorkloadFacts
from perfkit.instruments.environment import add_fp32_settings, read_environment
from perfkit.instruments.graph_capture import is_capturing
from perfkit.instruments.memory.allocator_calls import read_allocator_calls, subtract_allocator_calls
from perfkit.instruments.recorder import Recorder
from perfkit.instruments.recording import EndNow, Recording
from perfkit.instruments.sensors.energy import EnergyWindow, explain_missing_counter, make_unknown_energy
from perfkit.instruments.sensors.machine_load import LoadReading, compute_load, read_load
from perfkit.instruments.sensors.memory_peaks import read_memory_peaks
from perfkit.instruments.sensors.process_memory import give_back_free_pages, read_peak_resident_bytes
from perfkit.instruments.sensors.sensors import Sensors, open_device_sensors
from perfkit.instruments.training.tensors import collect_parameter_facts, get_compute_dtype, shorten_dtype
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.store.layout import get_rank_folder
from perfkit.techniques.base.compile_facts import (
    collect_compile_facts,
    collect_compile_notes,
    collect_recompilations,
    remember_compilations,
)
from perfkit.techniques.base.state import World

T = TypeVar("T")

ENERGY_REMEDY = "more timed steps (--timed)"

_NOT_TIMED = make_unknown_energy("the loop ended before all steps were timed")


class VariantRecording:
    """The record of one rank, filled pass by pass.

    Attributes:
        folder: that of the run; the rank's own is within it.
        series: the timed steps; `warmup` those before them, and `steady` whether they had become so.
        first_timed: the step after which timing began.
        instrumented_s: wall times of the steps under each instrument.
        budget: what recordings may cost.
        pauses_s: how long the loop stood still for each instrument.
        ended_early: why an instrument ended before all its steps, and `cut` why one ended in the middle of one.
        sampled: whether Python's stacks were, or are being.
        load: of the machine during the timed steps, None until they have ended.
        peaks: what raised the peak memory.
        waiting: what the report says should the loop end while a recording waits until there is time for it.
        warnings: what the report should say beside the numbers.
    """

    def __init__(
        self,
        folder: Path,
        loop: LoopFollower,
        trained: TrainedModels,
        world: World,
        *,
        trigger: str = "",
        budget: RecordingBudget | None = None,
        ledger: WallTimeLedger | None = None,
    ) -> None:
        self.folder = folder
        self._ledger = ledger or WallTimeLedger()
        self.budget = budget or RecordingBudget()
        self.trigger = trigger
        self.warnings: list[Note] = []
        self._loop = loop
        remember_compilations()
        self._launcher = os.getppid() if world.size > 1 else None  # the other ranks are its children, too
        self.reset_recording(trained)
        record = RankRecord(
            rank=world.rank,
            world_size=world.size,
            status=RunStatus.CRASHED,
            reason="the program ended before the recording was complete; cause unknown",
            environment=read_environment(trained.device),
            attached_loop=AttachedLoop(
                step_marker=loop.steps_by()
            ),  # a reader must know at once that its end may yet come
        )
        self.recorder = Recorder(get_rank_folder(folder, world.rank), record)

    def reset_recording(self, trained: TrainedModels) -> None:
        """Reset to no recording; from now on the recording is of `trained`."""
        self._trained = trained
        self.series = StepSeries()
        self.warmup = StepSeries()
        self.peaks = PeakWatch(trained.device)
        self.steady = False
        self.first_timed = 0
        self.instrumented_s: dict[str, tuple[float, ...]] = {}
        self.pauses_s: dict[str, float] = {}
        self.ended_early: dict[str, str] = {}
        self.cut = ""
        self.waiting: Note | None = None
        self.sampled = False
        self._peak_bytes: dict[str, int] = {}
        self._traced_shapes: set[int] = set()
        self._window: EnergyWindow | None = None
        self._device_samples: list[DeviceSample] = []
        self._timing_began = 0.0
        self._allocator_calls: dict[str, int] = {}
        self._allocator_facts: dict[str, float] = {}
        self._load_start: LoadReading | None = None
        self.load: MachineLoad | None = None
        self._energy = _NOT_TIMED

    def follow_model(self, trained: TrainedModels) -> None:
        """Go on with `trained`, which has taken the place of what was trained before."""
        self._trained = trained

    def let_go(self, nothing: TrainedModels) -> None:
        """Release the trained model: everything is written."""
        self._trained = nothing

    def run_instrumented(
        self, name: str, recording: Recording[T], *, phases: bool = False, lead: int = 0, steps: int = 0
    ) -> Recording[T]:
        """Run `recording`, noting each step's wall time after the first `lead`, with phases marked on request. If it
        costs too much, it is ended early (`EndNow`); an exception thrown into it closes it."""
        walls: list[float] = []
        evaluations = 0
        timed = self.series.wall_s()
        usual = median(timed) if timed else math.inf
        peak = read_peak_resident_bytes()
        self._loop.phases.on = phases
        self._loop.take()
        self._ledger.instrumented = True
        try:
            while True:
                try:
                    with self._measure_pause(name):
                        if name in self.ended_early:
                            recording.throw(EndNow())
                        else:
                            next(recording)
                except StopIteration as ended:
                    result: T = ended.value
                    return result
                start = time.perf_counter()
                try:
                    yield
                except EndNow as now:
                    self.cut = self.ended_early[name] = str(now)
                    raise
                walls.append(time.perf_counter() - start)
                self.budget.spent_s += max(0.0, walls[-1] - usual)
                reason = self.budget.check_progress() if len(walls) < steps else ""
                if reason:
                    self.ended_early[name] = reason
                counts = self._loop.take()
                evaluations += counts.evaluations
                if self.peaks.source == ALLOCATOR:
                    self.peaks.look(counts, self.first_timed + len(self.series) + len(walls))
                if name == "trace":
                    self._traced_shapes.add(counts.input_shapes)
        finally:
            with self._measure_pause(name):
                recording.close()
                give_back_free_pages()
                if self.peaks.source != ALLOCATOR:
                    self.peaks.pass_over()
            after = read_peak_resident_bytes()
            if peak is not None and after is not None:
                self._peak_bytes[name] = max(0, after - peak)
            self._loop.phases.on = False
            self._ledger.instrumented = False
            self.instrumented_s[name] = tuple(walls[lead:] or walls)
            if evaluations and not self.series.evaluates:
                text = f"an evaluation ran in a step of the {name} recording, and is included in its figures"
                self.warnings.append(make_note("recording.evaluation", text, recording=name))

    @contextmanager
    def _measure_pause(self, name: str) -> Iterator[None]:
        """The loop stands still for this instrument while entered."""
        start = time.perf_counter()
        try:
            yield
        finally:
            paused = time.perf_counter() - start
            self.pauses_s[name] = self.pauses_s.get(name, 0.0) + paused
            self.budget.spent_s += paused

    def begin_timing(self) -> None:
        """The timed steps begin now.

        Where there is a counter to read, a GPU's earlier work is waited for, as it is before those of a bench; not
        while a CUDA graph is captured, which waiting would end.
        """
        sensors = self._open_sensors()
        self._device_samples = [] if sensors is None else [sensors.sample(0.0)]
        self._allocator_calls = read_allocator_calls(self._trained.device)
        self._load_start = read_load(root=self._launcher)
        self._timing_began = time.perf_counter()
        if sensors is None or is_capturing(self._trained.device):
            return
        torch.cuda.synchronize(self._trained.device)
        self._window = EnergyWindow(sensors.energy_joules)

    def end_timing(self) -> None:
        """End timing. On a GPU, read the clocks while it is at work, then wait for the timed steps, and for two ticks
        of an energy counter."""
        steps = len(self.series)
        if self._load_start is not None:
            self.load = compute_load(self._load_start, read_load(root=self._launcher))
        calls = read_allocator_calls(self._trained.device)
        self._allocator_facts = subtract_allocator_calls(self._allocator_calls, calls)
        sensors = self._open_sensors()
        if sensors is not None:
            self._device_samples.append(sensors.sample(time.perf_counter() - self._timing_began))
        if self._window is None or is_capturing(self._trained.device):
            self._energy = make_unknown_energy(
                explain_missing_counter(self._trained.device, sensors) or "a CUDA graph was captured"
            )
            return
        torch.cuda.synchronize(self._trained.device)
        if len(self.series.list_training_steps()) < steps:
            counts = self.series.counts
            event = (
                "a CUDA graph was captured"
                if any(count.captures for count in counts)
                else "a new model was built"
                if any(count.new_models for count in counts)
                else "an evaluation ran"
            )
            self._energy = make_unknown_energy(f"{event} during the timed steps")
        else:
            self._energy = self._window.close(steps, ENERGY_REMEDY)

    def _open_sensors(self) -> Sensors | None:
        return open_device_sensors(self._trained.device)

    def write_timing(self, name: str, steps: int, *, units_per_step: float | None, unit: str) -> StepUnits:
        """Write the timed steps and their counts, after `steps` steps of the loop `name`."""
        chosen = self.series.list_training_steps()
        counts = [self.series.counts[index] for index in chosen]
        walls = self.series.wall_s()
        # With several models (a critic, called several times per batch), no single one shows the samples of a step.
        inputs = [count.given for count in counts] if len(self._trained.models) == 1 else []
        fetched = [count.fetched for count in counts]
        units = count_units(
            fetched,
            inputs,
            stated=units_per_step,
            unit=unit,
            doubt=_explain_doubt(counts, self._trained.models.values()) if inputs else "",
            batch_doubt=_explain_batch_doubt(counts, self._trained.models.values()),
        )
        fetching = any(count.fetches for count in counts)
        excluded = [
            index for index, count in enumerate(self.series.counts) if count.evaluations and index not in set(chosen)
        ]
        captures = sum(1 for count in self.series.counts if count.captures)
        if captures:
            text = f"a CUDA graph was captured in {captures} of the timed steps, which are excluded"
            self.warnings.append(make_note("recording.graph_captures", text, steps=captures))
        started_in = self.recorder.record.environment
        assert started_in is not None
        self.recorder.update(
            warmup=self.warmup.samples(list(range(len(self.warmup)))),
            is_steady=self.steady,
            samples=self.series.samples(chosen),
            compute_dtype=self._find_compute_dtype(),
            facts=collect_parameter_facts(self._trained.models.values()) | self._allocator_facts,
            environment=add_fp32_settings(started_in, self._trained.device),
            memory=read_memory_peaks(
                self._trained.device, self._open_sensors(), "since the program began or last reset it"
            ),
            device_samples=tuple(self._device_samples),
            energy=self._energy.step,
            power=self._energy.power,
            workload=WorkloadFacts(
                unit=units.unit,
                units_per_batch=units.per_step,
                parameters=sum(parameter.numel() for _, parameter in self._trained.named_parameters()),
                description=f"{name}, a loop that perfkit was attached to",
            ),
            attached_loop=AttachedLoop(
                step_marker=self._loop.steps_by(),
                optimizers=tuple(_describe_optimizer(optimizer) for optimizer in self._trained.optimizers),
                models=tuple(type(unwrap_module(model)).__name__ for model in self._trained.models.values()),
                steps_seen=steps,
                first_timed=self.first_timed,
                optimizer_steps=tuple(count.optimizer_steps for count in counts),
                backwards=tuple(count.backwards for count in counts),
                forwards=tuple(count.forwards for count in counts),
                fetches=tuple(count.fetches for count in counts) if fetching else (),
                repeated_forwards=tuple(count.again + count.closures for count in counts),
                data_wait_s=tuple(count.data_wait_ns / 1e9 for count in counts) if fetching else (),
                collection_s=tuple(count.collection_ns / 1e9 for count in counts),
                excluded_steps_s=tuple(walls[index] for index in excluded),
                excluded_waits_s=(
                    tuple(self.series.counts[index].data_wait_ns / 1e9 for index in excluded) if fetching else ()
                ),
                units_source=units.source,
                padded_share=self._loop.padding.compute_share(),
                trigger=self.trigger,
                tokens=sum_tokens([count.tokens for count in counts]),
            ),
        )
        return units

    def have_shapes_changed(self) -> bool:
        """True if no shapes of inputs are those of most timed steps, or a traced step had others: then a count of FLOPs
        in a few steps is not that of the median one."""
        counts = Counter(self.series.counts[index].input_shapes for index in self.series.list_training_steps())
        if not counts:
            return False
        ((usual, steps),) = counts.most_common(1)
        return 2 * steps <= counts.total() or not self._traced_shapes <= {usual}

    def _find_compute_dtype(self) -> str:
        """The dtype that autocast used in the last forward pass, else that of most parameters."""
        sizes: dict[torch.dtype, int] = {}
        for _, parameter in self._trained.named_parameters():
            sizes[parameter.dtype] = sizes.get(parameter.dtype, 0) + parameter.numel()
        dtype = self._loop.autocast or max(sizes, key=sizes.__getitem__, default=torch.float32)
        return get_compute_dtype(shorten_dtype(dtype), self._trained.device)

    def close(self, steps: int, status: RunStatus, reason: str = "", traceback: str = "") -> None:
        """Write how the recording ended, after `steps` steps of the loop."""
        self.peaks.end(steps)
        attached = self.recorder.record.attached_loop
        assert attached is not None, "the timing is written first"
        compiled = collect_compile_facts()
        if compiled:
            self.recorder.add_facts(compiled, collect_compile_notes())
        self.recorder.update(
            status=status,
            reason=reason,
            traceback=traceback,
            recompilations=collect_recompilations(self._ledger.compiled_in),
            failed_step=None if status == RunStatus.OK else steps,
            warnings=tuple(self.warnings),
            attached_loop=msgspec.structs.replace(
                attached,
                steps_seen=steps,
                instrumented_s=self.instrumented_s,
                pauses_s=self.pauses_s,
                peak_bytes=self._peak_bytes,
                early_end_reasons=self.ended_early,
                shapes_changed=self.have_shapes_changed(),
                wall_time=None if self.trigger else self._ledger.summarize(),
                peak_rises=tuple(self.peaks.rises),
                peak_source=self.peaks.source,
            ),
        )


def _explain_doubt(counts: Sequence[StepCounts], models: Iterable[nn.Module]) -> str:
    """The reason that the model's input may not be the samples of a step; "" without one."""
    if any(count.closures for count in counts):
        return "an optimizer evaluated the model several times in one step, possibly on the same samples"
    if any(count.single for count in counts):
        return "the model was called with vectors, each of which may be one sample"
    doubt = next((count.input_doubt for count in counts if count.input_doubt), "")
    doubt = doubt or (PACKED if any(count.batch_doubt == PACKED for count in counts) else "")
    if doubt:
        return f"in the model's input, {doubt}"
    return _explain_sequence_first(models)


def _explain_batch_doubt(counts: Sequence[StepCounts], models: Iterable[nn.Module]) -> str:
    """The same of the first dimension of DataLoaders' batches."""
    doubt = next((count.batch_doubt for count in counts if count.batch_doubt), "")
    if doubt:
        return f"in a batch, {doubt}"
    return _explain_sequence_first(models) if any(count.sequence_batches for count in counts) else ""


def _explain_sequence_first(models: Iterable[nn.Module]) -> str:
    layer = find_sequence_first(models)
    return f"the model has {layer} with batch_first=False, so a first dimension may be the sequence" if layer else ""


def _describe_optimizer(optimizer: torch.optim.Optimizer) -> str:
    """`AdamW, 148 parameters`."""
    count = sum(len(group["params"]) for group in optimizer.param_groups)
    return f"{type(optimizer).__name__}, {count} parameter{'' if count == 1 else 's'}"
