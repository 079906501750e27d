"""The least recomputation that fits, by plans that are made up, and by trials: what is run, and which peak is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant
from perfkit.core.allocations import PARAMETER, InitialBlock, build_allocations
from perfkit.core.files import write_json
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import RunSpec, WorkloadSpec, format_variant_label, parse_variants
from perfkit.measure.schedule import Techniques
from perfkit.plan.search import least_recomputation
from perfkit.plan.search.least_recomputation import (
    Try,
    find_least_recomputation,
    make_trial_runner,
    read_allocator_peak,
)
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, RecomputationSearch, RecomputationTrial
from perfkit.store.memory_file import write_allocations
from perfkit.store.request import BenchRequest
from tests.fixtures.figures import list_figures

BLOCKS = 4
# A block keeps 50 bytes, without what lies between products 20, and 5 of its input; all else is 100.
PEAKS = {
    "baseline": 300,
    "ckpt:mode=selective:blocks=1": 270,
    "ckpt:mode=selective:blocks=2": 240,
    "ckpt:mode=selective:blocks=3": 210,
    "ckpt:mode=selective": 180,
    "ckpt:blocks=1": 255,
    "ckpt:blocks=2": 210,
    "ckpt:blocks=3": 165,
    "ckpt": 120,
}


def planned(techniques: Techniques, blocks: int = BLOCKS) -> PlannedVariant:
    name = format_variant_label(techniques)
    size = PEAKS[name]
    peak = PlannedPeak(value=size - 1, low=size - 2, high=size, phase="backward", categories={})
    return PlannedVariant(name=name, world_size=1, peak_allocated_bytes=peak, blocks=blocks)


def search(
    limit: float,
    asked: str = "ckpt:fit=8GiB",
    plan: Callable[[Techniques], PlannedVariant] = planned,
    run: Try | None = None,
) -> RecomputationSearch:
    (techniques,) = parse_variants(asked)
    found, made = find_least_recomputation(techniques, limit, plan, run)
    assert format_variant_label(found) == made.selected_variant or (
        made.selected_variant is None and found == techniques
    )
    assert made.requested_variant == asked
    return made


def test_the_first_in_the_order_of_recomputation_that_fits() -> None:
    least = {limit: search(limit).selected_variant for limit in (300, 299, 240, 239, 180, 179, 164, 120)}
    assert least == {
        300: "baseline",
        299: "ckpt:mode=selective:blocks=1",
        240: "ckpt:mode=selective:blocks=2",
        239: "ckpt:mode=selective:blocks=3",
        180: "ckpt:mode=selective",
        179: "ckpt:blocks=3",
        164: "ckpt",
        120: "ckpt",
    }
    assert search(239, "ckpt:mode=full:fit=8GiB").selected_variant == "ckpt:blocks=2"


def test_few_are_planned_and_each_once() -> None:
    names = [trial.variant for trial in search(250).trials]
    assert names == ["baseline", "ckpt:mode=selective", *(f"ckpt:mode=selective:blocks={count}" for count in (3, 2, 1))]
    assert {trial.variant: trial.fits for trial in search(250).trials} == {name: PEAKS[name] <= 250 for name in names}
    assert all(trial.planned_bytes == PEAKS[trial.variant] for trial in search(250).trials)  # the upper end


def test_where_nothing_fits_the_least_peak_is_told() -> None:
    made = search(119)
    assert made.selected_variant is None
    assert list_figures(made.reason) == ["119 B", "120 B"]
    selective = search(119, "ckpt:mode=selective:fit=8GiB").reason
    assert list_figures(selective) == ["119 B", "180 B"]


def takes(more: float) -> tuple[Try, list[str]]:
    """Runs that take so much more than was planned, and their names."""
    names: list[str] = []

    def run(techniques: Techniques, trial: RecomputationTrial) -> RecomputationTrial:
        names.append(format_variant_label(techniques))
        assert trial.variant == names[-1]
        return replace(trial, measured_bytes=PEAKS[trial.variant] + more, seconds=1.0)

    return run, names


def test_a_run_has_the_last_word() -> None:
    run, names = takes(5)
    made = search(240, run=run)
    assert made.selected_variant == "ckpt:mode=selective:blocks=3"
    assert names == ["ckpt:mode=selective:blocks=2", "ckpt:mode=selective:blocks=3"]
    told = {trial.variant: (trial.planned_bytes, trial.measured_bytes, trial.fits) for trial in made.trials}
    assert told["ckpt:mode=selective:blocks=2"] == (240, 245, False)
    assert told["ckpt:mode=selective:blocks=3"] == (210, 215, True)
    assert told["ckpt:mode=selective:blocks=1"] == (270, None, False)


def test_after_the_last_of_a_mode_comes_the_first_of_the_next_that_fits() -> None:
    run, names = takes(5)
    assert search(182, run=run).selected_variant == "ckpt:blocks=3"
    assert names == ["ckpt:mode=selective", "ckpt:blocks=3"]


def test_a_peak_that_was_measured_is_told_where_even_the_last_takes_more() -> None:
    run, names = takes(100)
    made = search(200, run=run)
    assert made.selected_variant is None
    assert list_figures(made.reason) == ["200 B", "220 B"]
    assert names == ["ckpt:mode=selective", "ckpt:blocks=3", "ckpt"]


def test_a_run_without_memory_does_not_fit_and_one_that_fails_refutes_nothing() -> None:
    def run(techniques: Techniques, trial: RecomputationTrial) -> RecomputationTrial:
        lacking = trial.variant == "baseline"
        return replace(trial, fits=False if lacking else None, reason="out of memory" if lacking else "failed: why")

    made = search(300, run=run)
    assert made.selected_variant == "ckpt:mode=selective:blocks=1"
    reasons = {trial.variant: (trial.fits, trial.reason) for trial in made.trials}
    assert reasons["baseline"] == (False, "out of memory")
    assert reasons["ckpt:mode=selective:blocks=1"] == (None, "failed: why")


def test_what_cannot_be_planned() -> None:
    def nothing(techniques: Techniques) -> PlannedVariant:
        return PlannedVariant(name=format_variant_label(techniques), world_size=1, reason="needs values")

    made = search(300, plan=nothing)
    assert made.selected_variant is None
    assert made.reason.startswith("baseline ")
    assert made.reason.endswith(": needs values")

    def no_selective(techniques: Techniques) -> PlannedVariant:
        return nothing(techniques) if "selective" in format_variant_label(techniques) else planned(techniques)

    made = search(250, plan=no_selective)
    assert made.selected_variant == "ckpt:blocks=2"
    assert [trial.reason for trial in made.trials if trial.fits is None] == ["needs values"]


def test_a_workload_without_blocks() -> None:
    made = search(200, plan=lambda techniques: planned(techniques, blocks=0))
    assert made.selected_variant is None
    assert made.reason == (
        "not even baseline fits in 200 B: planned peak 300 B; the workload names no blocks to checkpoint"
    )
    assert search(300, plan=lambda techniques: planned(techniques, blocks=0)).selected_variant == "baseline"


NO = Unknown(reason="not on a CPU")
(CKPT,) = parse_variants("ckpt:blocks=2")
PLANNED = RecomputationTrial(variant="ckpt:blocks=2", planned_bytes=90.0, fits=True)


def request(**changes: Any) -> BenchRequest:
    workload = WorkloadSpec(name="gpt", params={"size": "nano"})
    return BenchRequest(
        **{"workload": workload, "variants": (), "device": "cpu", "device_count": 0, "cores": 2, **changes}
    )


def trial(
    monkeypatch: pytest.MonkeyPatch, run: RunResult, peaks: list[float | None], **changes: Any
) -> tuple[RecomputationTrial, list[RunSpec]]:
    """What a trial says whose run ends so, with these peaks of its ranks; and what was run."""
    specs: list[RunSpec] = []

    def tried(spec: RunSpec, _number: int, _progress: object, read: object) -> tuple[RunResult, list[float | None]]:
        assert read is read_allocator_peak
        specs.append(spec)
        return run, peaks

    monkeypatch.setattr(least_recomputation, "run_trial", tried)
    return make_trial_runner(request(**changes), lambda _: None)(CKPT, PLANNED), specs


def test_the_fullest_rank_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    told, (spec,) = trial(monkeypatch, RunResult(status=RunStatus.OK, seconds=3.0), [70.0, 95.0])
    assert (told.planned_bytes, told.measured_bytes, told.seconds) == (90.0, 95.0, 3.0)
    assert spec.variant == "ckpt:blocks=2"
    assert spec.passes == ("memory",)  # a CPU's allocator keeps no statistics
    assert (spec.schedule.warmup, spec.schedule.timed) == (1, 1)


def test_a_gpus_allocator_tells_its_peak_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (spec,) = trial(monkeypatch, RunResult(status=RunStatus.OK), [70.0], device="cuda", device_count=1)
    assert spec.passes == ()


def test_how_a_trial_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking, _ = trial(monkeypatch, RunResult(status=RunStatus.OUT_OF_MEMORY, reason="here"), [])
    assert (lacking.fits, lacking.measured_bytes) == (False, None)
    assert lacking.reason == f"{RunStatus.OUT_OF_MEMORY}: here"
    failed, _ = trial(monkeypatch, RunResult(status=RunStatus.FAILED, reason="ValueError"), [])
    assert (failed.fits, failed.reason) == (None, "failed: ValueError")
    silent, _ = trial(monkeypatch, RunResult(status=RunStatus.OK), [None])
    assert (silent.fits, silent.reason) == (None, "memory unknown")


def test_what_cannot_be_run_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    told, specs = trial(monkeypatch, RunResult(status=RunStatus.OK), [1.0], device="cuda", device_count=1, world_size=4)
    assert told.fits is None
    assert "4" in told.reason
    assert specs == []


def test_the_peak_is_of_the_events_or_of_the_allocators_own_statistics(tmp_path: Path) -> None:
    assert read_allocator_peak(tmp_path) is None
    peaks = MemoryPeaks(allocated=make_measurement(640, "bytes", "test"), reserved=NO, driver_used=NO, rss=NO)
    record = RankRecord(rank=0, world_size=1, status=RunStatus.OK, memory=peaks)
    write_json(tmp_path / RECORD_FILE, record)
    assert read_allocator_peak(tmp_path) == 640.0
    # 1000 bytes of parameters, then 100 and 50, of which 100 go again, and 20: 1150 at most.
    events = build_allocations(
        device="cpu",
        source="made up",
        time_ns=[1, 2, 3, 4],
        address=[10, 20, 10, 30],
        size=[100, 50, -100, 20],
        known=(InitialBlock(address=1, size_bytes=1000, category=PARAMETER, name="weight"),),
    )
    write_allocations(tmp_path / MEMORY_FILE, events)
    assert read_allocator_peak(tmp_path) == 1150.0
