"""Trials of a search for the least recomputation: what is run, and which peak is read."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.core.allocations import PARAMETER, build_allocations
from perfkit.core.files import write_json
from perfkit.core.record import InitialBlock, MemoryPeaks, RankRecord, RunResult, RunStatus, Unknown, make_measurement
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.search import recomputation_trials
from perfkit.plan.search.recomputation_trials import make_trial_runner, read_allocator_peak
from perfkit.store.layout import MEMORY_FILE, RECORD_FILE, RecomputationTrial
from perfkit.store.memory_file import write_allocations
from perfkit.store.request import BenchRequest

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

    monkeypatch.setattr(recomputation_trials, "run_trial", tried)
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
