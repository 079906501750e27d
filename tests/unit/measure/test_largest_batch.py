"""The search for the largest batch: which sizes are tried, what fits, and what is never run."""

import signal
from functools import partial

import pytest

from perfkit.core.record.environment import Environment
from perfkit.core.record.memory import MemoryPeaks
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec, format_variant_label, parse_variants
from perfkit.measure import largest_batch
from perfkit.measure.largest_batch import (
    _SizeSearch,
    compute_resolution,
    find_largest_batch,
    search_batch_sizes,
    set_batch_size,
)
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.measure.launch.run_outcome import determine_outcome
from perfkit.measure.schedule import ScheduledRun
from perfkit.store.layout import BatchTrial
from tests.fixtures.figures import list_figures

NO = Unknown(reason="not on a CPU")


def test_the_resolution_is_a_sixteenth_of_the_size():
    assert compute_resolution(100) == 6
    assert compute_resolution(3) == 1


def test_the_variant_that_asks_for_a_search_gets_the_size():
    (techniques,) = parse_variants("amp+batch:auto:most=64")
    assert [technique.label for technique in set_batch_size(techniques, 12)] == ["amp", "batch:size=12"]
    assert [technique.label for technique in set_batch_size(parse_variants("amp")[0], 12)] == ["amp", "batch:size=12"]


def scheduled(techniques, skip=lambda size: "", **launch) -> ScheduledRun:
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), techniques=techniques, launch=LaunchSpec(**launch))
    return ScheduledRun(spec, 0, skip(techniques[0].params["size"]))


def search(*, peak=lambda size: 100.0 + 10 * size, available=1000.0, end=lambda size: None, **launch):
    """A search over fake processes that take `peak` bytes, or end as `end` says; and the launched runs."""
    launched: list[RunSpec] = []

    def launch_fake(spec: RunSpec, _number: int) -> tuple[RunResult, list[RankRecord]]:
        size = int(spec.techniques[0].params["size"])
        launched.append(spec)
        assert spec.passes == ()
        if ended := end(size):
            return ended, []
        rss = make_measurement(peak(size), "bytes", "test")
        memory = MemoryPeaks(allocated=NO, reserved=NO, driver_used=NO, rss=rss)
        return RunResult(status=RunStatus.OK), [RankRecord(rank=0, world_size=1, status=RunStatus.OK, memory=memory)]

    techniques = parse_variants("batch:auto")[0]
    made = _SizeSearch(techniques, partial(scheduled, **launch), launch_fake, available=lambda: available)
    return made, launched


def trials_of(made: _SizeSearch) -> list[BatchTrial]:
    return [*made.trials.results.values()]


def sizes_of(launched: list[RunSpec]) -> list[int]:
    return [int(spec.techniques[0].params["size"]) for spec in launched]


def test_a_trial_fits_if_it_leaves_the_margin():
    # 90 % of 1000 bytes are usable: 100 + 10 x 80.
    made, launched = search()
    assert search_batch_sizes(made.try_size, 10, 1024) in range(75, 81)
    assert made.limit_bytes == 1000.0
    assert max(sizes_of(launched)) <= 80


def test_on_a_cpu_what_is_expected_to_take_more_is_not_run():
    made, launched = search()
    assert made.try_size(10)
    assert made.try_size(20)
    assert made.try_size(100) is False
    assert sizes_of(launched) == [10, 20]
    assert trials_of(made)[-1].reason.startswith("not run: ")
    assert trials_of(made)[-1].peak_bytes is None


def test_what_the_model_takes_is_told_from_what_a_sample_takes_before_a_size_is_ruled_out():
    # 9000 bytes are usable: 6000 + 10 x 300. In proportion to the first trial 16 would take 12160.
    made, launched = search(peak=lambda size: 6000.0 + 10 * size, available=10_000.0)
    assert search_batch_sizes(made.try_size, 8, 1024) in range(282, 301)
    assert sizes_of(launched)[:3] == [8, 4, 16]
    assert max(sizes_of(launched)) <= 300


def test_smaller_sizes_than_one_that_takes_too_much_are_run():
    made, launched = search(peak=lambda size: 100.0 + 106 * size)  # 948 of the 900 that are usable
    assert search_batch_sizes(made.try_size, 8, 1024) == 7
    assert sizes_of(launched) == [8, 4, 6, 7]
    assert (trials_of(made)[0].fits, trials_of(made)[0].peak_bytes) == (False, 948.0)
    assert list_figures(trials_of(made)[0].reason) == ["10 %", "1,000 B"]


def test_half_of_a_size_that_takes_more_than_twice_what_is_usable_is_not_run():
    made, launched = search(peak=lambda size: 100.0 + 300 * size)  # 2500 of the 900 that are usable
    assert search_batch_sizes(made.try_size, 8, 1024) == 2
    assert [(trial.size, trial.fits) for trial in trials_of(made)] == [(8, False), (4, False), (2, True), (3, False)]
    assert sizes_of(launched) == [8, 2]


def test_a_half_that_was_run_is_not_run_again():
    made, launched = search(peak=lambda size: 700.0 + 100 * size)
    assert search_batch_sizes(made.try_size, 5, 1024, compute_resolution(5)) == 2
    assert sizes_of(launched) == [5, 2]


OUT_OF_MEMORY = RunResult(status=RunStatus.OUT_OF_MEMORY, reason="out of memory")


def test_within_a_limit_a_process_that_runs_out_of_memory_tells():
    made, launched = search(end=lambda size: OUT_OF_MEMORY if size >= 40 else None, memory_limit_bytes=10_000)
    assert search_batch_sizes(made.try_size, 10, 1024) in range(37, 40)
    assert 40 in sizes_of(launched)
    assert made.limit_bytes == 10_000
    assert {trial.fits for trial in trials_of(made) if trial.size >= 40} == {False}


def test_on_a_cpu_the_limit_is_of_addresses_so_a_trial_is_given_what_the_margin_leaves_of_it():
    made, launched = search(memory_limit_bytes=10_000)
    assert made.try_size(8)
    assert launched[0].launch.memory_limit_bytes == 9000


def test_what_the_system_killed_does_not_fit(tmp_path):
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=LaunchSpec(world_size=2))
    killed = determine_outcome(spec, tmp_path, None, ExitCodes((-signal.SIGTERM, -signal.SIGKILL), (1,)))
    assert search(end=lambda _: killed)[0].try_size(8) is False
    crashed = determine_outcome(spec, tmp_path, None, ExitCodes((-signal.SIGKILL, -signal.SIGSEGV), (1,)))
    assert search(end=lambda _: crashed)[0].try_size(8) is None


def test_a_trial_that_ends_for_another_reason_ends_the_search():
    for status in (RunStatus.FAILED, RunStatus.SKIPPED, RunStatus.TIMEOUT):
        made, launched = search(end=lambda _, status=status: RunResult(status=status, reason="why"))
        assert search_batch_sizes(made.try_size, 8, 1024) is None
        assert sizes_of(launched) == [8]
        assert trials_of(made)[0].fits is None
        assert trials_of(made)[0].reason == f"{status}: why"


def found(monkeypatch, end=lambda size: None, skip=lambda size: "", predicted=None):
    """The variant, what was found, and the sizes tried, of a search from 8 on for a workload that `skip` refuses."""
    made, _ = search(end=end)
    monkeypatch.setattr(largest_batch, "_launch_trial", lambda spec, number, progress: made.launch(spec, number))
    monkeypatch.setattr(largest_batch.psutil, "virtual_memory", lambda: type("Memory", (), {"available": 1000}))
    (techniques,) = parse_variants("batch:auto:most=32")
    changed, searched = find_largest_batch(
        techniques,
        32,
        scheduled=partial(scheduled, skip=skip),
        first=8,
        predicted=predicted,
        progress=lambda _: None,
    )
    assert searched.predicted_size == predicted
    return format_variant_label(changed), searched.selected_variant, [trial.size for trial in searched.trials]


def test_a_workload_that_has_only_some_sizes_is_searched_from_its_own(monkeypatch):
    assert found(monkeypatch, skip=lambda size: size % 4 and "not a multiple of 4") == (
        "batch:size=32", "batch:size=32", [8, 16, 32],
    )  # fmt: skip


def test_the_search_begins_at_what_is_predicted(monkeypatch):
    assert found(monkeypatch, end=lambda size: OUT_OF_MEMORY if size > 22 else None, predicted=20) == (
        "batch:size=22", "batch:size=22", [20, 21, 23, 22],
    )  # fmt: skip


def test_where_nothing_fits_nothing_is_found_and_the_run_says_why(monkeypatch):
    assert found(monkeypatch, end=lambda _: OUT_OF_MEMORY) == ("batch:size=1", None, [8, 4, 2, 1])
    assert found(monkeypatch, skip=lambda _: "needs 2 GPUs") == ("batch:size=8", None, [8])


def test_a_trial_without_a_known_peak_does_not_count_as_fitting():
    made, _ = search(peak=lambda _: 0.0)
    made.launch = lambda *_: (RunResult(status=RunStatus.OK), [RankRecord(rank=0, world_size=1, status=RunStatus.OK)])
    assert made.try_size(1) is None
    assert (trials_of(made)[-1].fits, trials_of(made)[-1].peak_bytes) == (None, None)
    assert "memory" in trials_of(made)[-1].reason


@pytest.mark.parametrize("share", [0.5, 0.95])
@pytest.mark.parametrize("host_limit", [None, 10**9])
def test_on_a_gpu_the_limit_is_the_devices(share, host_limit):
    made, _ = search(device="cuda", memory_limit_bytes=host_limit)
    reserved = make_measurement(share * 2000, "bytes", "test")
    record = RankRecord(
        rank=0,
        world_size=1,
        status=RunStatus.OK,
        memory=MemoryPeaks(allocated=NO, reserved=reserved, driver_used=NO, rss=NO),
        environment=Environment(
            hostname="h", platform="p", python="3", torch="2", device="cuda", device_name="GPU", device_count=1,
            device_memory_bytes=2000,
        ),
    )  # fmt: skip
    made.launch = lambda *_: (RunResult(status=RunStatus.OK), [record])
    assert made.try_size(8) is (share < 0.9)
    assert made.limit_bytes == 2000.0
