"""What one rank writes of a loop."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.attach import variant_recording
from perfkit.attach import variant_recording as variants
from perfkit.attach.host.budget import FLOOR_S, RecordingBudget
from perfkit.attach.loop.loop_follower import LoopFollower, StepCounts
from perfkit.attach.loop.step_finder import StepFinder
from perfkit.attach.loop.step_timing import BoundaryStamp, StepSeries
from perfkit.attach.loop.step_units import PACKED
from perfkit.attach.variant_recording import VariantRecording
from perfkit.core.files import read_json
from perfkit.core.note import make_note
from perfkit.core.record.environment import DeviceSample
from perfkit.core.record.quantity import Quantity, Unknown, get_value
from perfkit.core.record.rank_record import RankRecord, Recompilation, RunStatus
from perfkit.instruments.recording import EndNow, Recording
from perfkit.instruments.sensors.energy import EnergyWindow
from perfkit.instruments.sensors.machine_load import LoadReading
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.store.layout import RECORD_FILE, get_rank_folder
from perfkit.techniques.base.state import World
from tests.fixtures.energy_counter import BUSY_W, FakeGpu


class Watched:
    """A recording of a loop that does nothing."""

    def __init__(self, folder: Path, model: nn.Module | None = None) -> None:
        self.loop = LoopFollower(StepFinder(), lambda: None)
        self.model = nn.Linear(3, 1) if model is None else model
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.trained = TrainedModels(torch.device("cpu"), {"": self.model}, (optimizer,))
        self.folder = folder
        self.recording = VariantRecording(folder, self.loop, self.trained, World(rank=1, size=2))

    def record(self) -> RankRecord:
        return read_json(get_rank_folder(self.folder, 1) / RECORD_FILE, RankRecord)

    def timed(self, *counts: StepCounts) -> None:
        stamps = [BoundaryStamp(second * 10**9, 0, None) for second in range(1 + len(counts))]
        self.recording.series = StepSeries(stamps, list(counts))


def explain_energy(watched: Watched) -> str:
    energy = watched.record().energy
    assert isinstance(energy, Unknown)
    return energy.reason


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


def test_until_more_is_known_it_is_a_loop_whose_end_was_not_written(watched: Watched) -> None:
    found = watched.record()
    assert (found.rank, found.world_size, found.status) == (1, 2, RunStatus.CRASHED)
    assert found.reason
    assert found.attached_loop is not None
    assert found.workload is None


def test_steps_in_which_a_graph_was_captured_are_left_out_and_said(watched: Watched) -> None:
    watched.timed(StepCounts(), StepCounts(captures=1), StepCounts(evaluations=1), StepCounts())
    watched.recording.write_timing("loop", 4, units_per_step=None, unit="samples")
    watched.recording.close(4, RunStatus.OK)
    found = watched.record()
    assert found.samples.wall_s == (1.0, 1.0)
    assert found.attached_loop.excluded_steps_s == (1.0,)  # the one with an evaluation
    assert [(note.id, note.figures) for note in found.warnings] == [("recording.graph_captures", {"steps": 1})]


def test_timing_and_counts(watched: Watched) -> None:
    once = StepCounts(optimizer_steps=1, forwards=2, backwards=2, fetches=2, data_wait_ns=5 * 10**8, fetched=16)
    evaluated = StepCounts(optimizer_steps=1, evaluations=3, fetches=5, data_wait_ns=10**9, fetched=99)
    watched.timed(once, evaluated, once)
    watched.recording.first_timed = 4
    units = watched.recording.write_timing("loop", 7, units_per_step=None, unit="samples")
    found = watched.record()
    assert units.per_step == found.workload.units_per_batch == 16
    assert found.workload.parameters == 4
    assert found.facts == {"parameter_bytes:fp32": 16.0}
    assert found.samples.wall_s == (1.0, 1.0)
    assert found.attached_loop.excluded_steps_s == (1.0,)
    assert found.attached_loop.data_wait_s == (0.5, 0.5)
    assert (found.attached_loop.forwards, found.attached_loop.backwards, found.attached_loop.optimizer_steps) == (
        (2, 2),
        (2, 2),
        (1, 1),
    )
    assert (found.attached_loop.first_timed, found.attached_loop.steps_seen) == (4, 7)
    assert found.attached_loop.optimizers == ("SGD, 2 parameters",)


@pytest.mark.parametrize(
    ("doubtful", "why"), [({"closures": 4}, "several times in one step"), ({"single": 1}, "called with vectors")]
)
def test_samples_that_are_not_sure_are_not_known(doubtful: dict[str, int], why: str, watched: Watched) -> None:
    watched.timed(StepCounts(optimizer_steps=1, forwards=5, backwards=5, given=160, **doubtful))
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    found = watched.record()
    assert found.workload.units_per_batch == 0
    assert why in found.attached_loop.units_source
    assert "--units-per-step" in found.attached_loop.units_source
    assert found.attached_loop.repeated_forwards == (doubtful.get("closures", 0),)


@pytest.mark.parametrize(("batch_first", "samples"), [(False, 0), (True, 35)])
def test_a_first_dimension_that_may_be_the_sequence_is_no_batch(
    batch_first: bool, samples: int, tmp_path: Path
) -> None:
    watched = Watched(tmp_path, nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4, 4, batch_first=batch_first)))
    watched.timed(StepCounts(optimizer_steps=1, forwards=1, backwards=1, given=35))
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    found = watched.record()
    assert found.workload.units_per_batch == samples
    assert ("nn.LSTM" in found.attached_loop.units_source) == (not batch_first)


@pytest.mark.parametrize(
    ("counted", "samples"),
    [({"sequence_batches": 1}, 0), ({}, 24), ({"batch_doubt": PACKED, "given": 1}, 0)],
)
def test_batches_of_a_loader_that_are_not_sure_are_not_counted(
    counted: dict[str, Any], samples: int, tmp_path: Path
) -> None:
    watched = Watched(tmp_path, nn.Sequential(nn.Embedding(9, 4), nn.LSTM(4, 4, batch_first="batch_doubt" in counted)))
    watched.timed(StepCounts(optimizer_steps=1, forwards=1, backwards=1, fetches=1, fetched=24, **counted))
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    found = watched.record()
    assert found.workload.units_per_batch == samples
    assert ("nn.LSTM" in found.attached_loop.units_source) == ("sequence_batches" in counted)


def test_without_a_loader_waiting_is_unknown(watched: Watched) -> None:
    watched.timed(StepCounts(optimizer_steps=1))
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    attached = watched.record().attached_loop
    assert attached.data_wait_s == ()


def test_a_loader_of_which_some_steps_take_no_batch(watched: Watched) -> None:
    watched.timed(StepCounts(fetches=1, data_wait_ns=10**9), StepCounts())
    watched.recording.write_timing("loop", 2, units_per_step=None, unit="samples")
    attached = watched.record().attached_loop
    assert attached.data_wait_s == (1.0, 0.0)


@pytest.mark.parametrize(("autocast", "dtype"), [(None, "fp64"), (torch.bfloat16, "bf16")])
def test_the_dtype_computed_in(autocast: torch.dtype | None, dtype: str, tmp_path: Path) -> None:
    mixed = nn.Sequential(nn.Linear(8, 8).double(), nn.Linear(1, 1))
    watched = Watched(tmp_path, mixed)
    watched.loop.autocast = autocast
    watched.recording.write_timing("loop", 0, units_per_step=None, unit="samples")
    assert watched.record().compute_dtype == dtype


def three_steps(results: list[str]) -> Recording[str]:
    try:
        for _ in range(3):
            yield
        return "found"
    finally:
        results.append("ended")


def test_an_instrument_and_the_times_of_its_steps(watched: Watched) -> None:
    ended: list[str] = []
    running = watched.recording.run_instrumented("trace", three_steps(ended), phases=True)
    for _ in range(3):
        next(running)
        assert watched.loop.phases.on
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "found"
    assert (ended, watched.loop.phases.on) == (["ended"], False)
    assert len(watched.recording.instrumented_s["trace"]) == 3
    assert watched.recording.warnings == []


@pytest.mark.parametrize(
    ("timed", "traced", "changed"),
    [
        ([7, 7, 7, 7], [7, 7, 7], False),
        ([7, 7, 3, 7], [7, 7, 7], False),  # a last batch of an epoch that is smaller
        ([7, 7, 3, 7], [7, 3, 7], True),
        ([7, 5, 3, 7], [7, 7, 7], True),
    ],
)
def test_inputs_whose_shapes_change_are_told(
    timed: list[int], traced: list[int], changed: bool, watched: Watched
) -> None:
    watched.timed(*(StepCounts(input_shapes=shapes) for shapes in timed))
    running = watched.recording.run_instrumented("trace", three_steps([]))
    next(running)
    for shapes in traced:
        watched.loop.counts.input_shapes = shapes
        with suppress(StopIteration):
            next(running)
    watched.recording.write_timing("loop", 9, units_per_step=None, unit="samples")
    watched.recording.close(9, RunStatus.OK)
    assert watched.record().attached_loop.shapes_changed == changed


def test_an_instrument_that_is_closed_in_the_middle(watched: Watched) -> None:
    ended: list[str] = []
    running = watched.recording.run_instrumented("trace", three_steps(ended), phases=True)
    next(running)
    next(running)
    running.close()
    assert (ended, watched.loop.phases.on) == (["ended"], False)
    assert len(watched.recording.instrumented_s["trace"]) == 1


def test_an_instrument_that_costs_too_much_ends_after_a_whole_step_and_its_cost_is_written(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.recording.budget = RecordingBudget(clock=lambda: 0.0)
    told: list[int] = []

    def recording() -> Recording[str]:
        try:
            for number in range(3):
                yield
                told.append(number)
        except EndNow:
            return "cut short"
        return "found"

    running = watched.recording.run_instrumented("trace", recording(), steps=3)
    next(running)
    watched.recording.budget.spent_s = 2 * FLOOR_S
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert (stopped.value.value, told) == ("cut short", [])
    watched.timed(StepCounts())
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    watched.recording.close(1, RunStatus.OK)
    attached = watched.record().attached_loop
    assert attached is not None
    assert "--overhead" in attached.early_end_reasons["trace"]
    assert attached.pauses_s["trace"] > 0
    assert attached.peak_bytes["trace"] >= 0


def test_an_instrument_is_not_told_to_end_after_its_last_step(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.recording.budget = RecordingBudget(clock=lambda: 0.0)
    watched.recording.budget.spent_s = 2 * FLOOR_S
    assert len(list(watched.recording.run_instrumented("trace", three_steps([]), steps=1))) == 3
    assert watched.recording.ended_early == {}


def test_an_evaluation_under_an_instrument_is_told_unless_every_step_has_one(watched: Watched) -> None:
    def run(name: str) -> None:
        running = watched.recording.run_instrumented(name, three_steps([]))
        next(running)
        watched.loop.evaluated()
        for _ in running:
            pass

    run("trace")
    [warning] = watched.recording.warnings
    assert (warning.id, warning.figures) == ("recording.evaluation", {"recording": "trace"})
    watched.timed(StepCounts(evaluations=1))
    run("memory")
    assert len(watched.recording.warnings) == 1


@pytest.mark.parametrize(("status", "failed"), [(RunStatus.OK, None), (RunStatus.FAILED, 9)])
def test_the_end(status: RunStatus, failed: int | None, watched: Watched) -> None:
    watched.recording.write_timing("loop", 5, units_per_step=None, unit="samples")
    watched.recording.warnings.append(make_note("recording.new_optimizer", "beware"))
    watched.recording.instrumented_s["trace"] = (1.0,)
    watched.recording.close(9, status, "a reason", "a traceback")
    found = watched.record()
    assert (found.status, found.reason, found.traceback, found.failed_step) == (
        status,
        "a reason",
        "a traceback",
        failed,
    )
    assert [note.text for note in found.warnings] == ["beware"]
    assert (found.attached_loop.steps_seen, found.attached_loop.instrumented_s) == (9, {"trace": (1.0,)})


def test_what_the_program_compiled_again_is_written_with_the_end(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = Recompilation(function="forward (net.py:31)", guard="k == 3", count=4, seconds=1.5)
    monkeypatch.setattr(variants, "collect_compile_facts", lambda: {"graphs": 5.0, "recompiles": 4.0})
    monkeypatch.setattr(variants, "collect_compile_notes", lambda: {"recompiles": "0/3: k == 3"})
    monkeypatch.setattr(variants, "collect_recompilations", lambda _steps: (again,))
    watched.timed(StepCounts())
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    watched.recording.close(1, RunStatus.OK)
    found = watched.record()
    assert (found.facts["graphs"], found.fact_notes["recompiles"]) == (5.0, "0/3: k == 3")
    assert found.recompilations == (again,)


def test_what_was_recorded_is_forgotten_when_it_begins_anew(watched: Watched) -> None:
    watched.timed(StepCounts())
    watched.recording.steady, watched.recording.first_timed = True, 5
    watched.recording.instrumented_s["trace"] = (1.0,)
    watched.recording.reset_recording(watched.trained)
    assert (len(watched.recording.series), watched.recording.steady, watched.recording.first_timed) == (0, False, 0)
    assert watched.recording.instrumented_s == {}


def test_load_of_the_machine_is_that_of_the_timed_steps(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter(
        LoadReading(time_s=time_s, cores=4, counted_s=4 * time_s, worked_s=3 * time_s, stolen_s=0.0, own_s=time_s,
                    waited_s=None, periods=None)
        for time_s in (10.0, 14.0)
    )  # fmt: skip
    roots: list[int | None] = []
    monkeypatch.setattr(variant_recording, "read_load", lambda root: (roots.append(root), next(readings))[1])
    assert watched.recording.load is None
    watched.recording.begin_timing()
    watched.recording.end_timing()
    load = watched.recording.load
    assert load is not None
    assert (load.seconds, load.own_cores, load.other_cores) == (4.0, 1.0, 2.0)
    assert roots == [os.getppid()] * 2  # the other rank is no stranger


def test_energy_of_a_loop_on_a_cpu_has_a_reason(watched: Watched) -> None:
    watched.recording.begin_timing()
    watched.timed(StepCounts(optimizer_steps=1))
    watched.recording.end_timing()
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    assert "CPU" in explain_energy(watched)


def test_energy_of_a_loop_that_ended_early_has_a_reason(watched: Watched) -> None:
    watched.timed(StepCounts(optimizer_steps=1))
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    assert "loop ended" in explain_energy(watched)


def _make_sensors(joules: Callable[[], float | None]) -> SimpleNamespace:
    return SimpleNamespace(energy_joules=joules, sample=lambda time_s: DeviceSample(time_s=time_s, sm_clock_hz=1.98e9))


def energy_of(watched: Watched, monkeypatch: pytest.MonkeyPatch, steps: int, counts: StepCounts) -> Quantity:
    """That of so many steps of 0.1 s of a loop on a fake GPU."""
    gpu = FakeGpu()
    monkeypatch.setattr(variants, "EnergyWindow", partial(EnergyWindow, now=gpu.now, sleep=gpu.sleep))
    monkeypatch.setattr(watched.recording, "_open_sensors", lambda: _make_sensors(gpu.joules))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(variants, "is_capturing", lambda device: False)
    watched.recording.begin_timing()
    for _ in range(steps):
        gpu.step(0.1)
    watched.timed(*[counts] * (steps - 1), StepCounts(optimizer_steps=1))
    watched.recording.end_timing()
    monkeypatch.setattr(watched.recording, "_open_sensors", lambda: None)
    watched.recording.write_timing("loop", steps, units_per_step=None, unit="samples")
    return watched.record().energy


def test_energy_of_a_loop_needs_two_seconds(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    short = energy_of(watched, monkeypatch, 3, StepCounts(optimizer_steps=1))
    assert short == Unknown(reason="window 0.3 s < 2 s: more timed steps (--timed)")
    long = energy_of(watched, monkeypatch, 50, StepCounts(optimizer_steps=1))
    assert get_value(long) == pytest.approx(BUSY_W * 0.1, rel=0.04)
    assert [sample.sm_clock_hz for sample in watched.record().device_samples] == [1.98e9] * 2  # before and after


def test_a_graph_that_is_captured_is_not_waited_for(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def end_of_the_capture(device: torch.device) -> None:
        raise AssertionError("waiting ends the capture")

    monkeypatch.setattr(watched.recording, "_open_sensors", lambda: _make_sensors(lambda: 1.0))
    monkeypatch.setattr(torch.cuda, "synchronize", end_of_the_capture)
    monkeypatch.setattr(variants, "is_capturing", lambda device: True)
    monkeypatch.setattr(variants, "explain_missing_counter", lambda device, sensors: "")
    watched.recording.begin_timing()
    watched.timed(StepCounts(optimizer_steps=1))
    watched.recording.end_timing()
    monkeypatch.setattr(watched.recording, "_open_sensors", lambda: None)
    watched.recording.write_timing("loop", 1, units_per_step=None, unit="samples")
    assert "CUDA graph" in explain_energy(watched)


@pytest.mark.parametrize(
    ("left_out", "why"),
    [(StepCounts(evaluations=1), "evaluation"), (StepCounts(captures=1), "CUDA graph")],
)
def test_steps_of_which_some_are_left_out_have_no_energy(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, left_out: StepCounts, why: str
) -> None:
    watched.timed(left_out, StepCounts(), StepCounts())
    gpu = FakeGpu()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(variants, "is_capturing", lambda device: False)
    monkeypatch.setattr(watched.recording, "_window", EnergyWindow(gpu.joules, now=gpu.now, sleep=gpu.sleep))
    watched.recording.end_timing()
    watched.recording.write_timing("loop", 3, units_per_step=None, unit="samples")
    assert why in explain_energy(watched)
