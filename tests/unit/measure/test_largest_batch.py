"""The search for the largest batch: which sizes are tried, what fits, and what is never run."""

import pytest

from perfkit.measure.largest_batch import _Search, largest_fitting, searches, sized
from perfkit.record import MemoryPeaks, RankRecord, Run, Status, Unknown, measured
from perfkit.spec import LaunchSpec, RunSpec, WorkloadSpec, parse_variants

NO = Unknown(reason="not on a CPU")


def tried(limit: int, first: int, most: int) -> tuple[int, list[int]]:
    sizes: list[int] = []

    def fits(size: int) -> bool:
        sizes.append(size)
        return size <= limit

    return largest_fitting(fits, first, most), sizes


def test_sizes_are_doubled_then_bisected():
    assert tried(11, 2, 1024) == (11, [2, 4, 8, 16, 12, 10, 11])
    assert tried(1000, 4, 16) == (16, [4, 8, 16])
    assert tried(1000, 4, 24) == (24, [4, 8, 16, 24])
    assert tried(0, 4, 64) == (0, [4, 2, 1])
    assert tried(1, 4, 64) == (1, [4, 2, 1])
    assert tried(1000, 64, 16) == (16, [16])
    assert tried(20, 20, 21) == (20, [20, 21])


def test_sizes_within_a_sixteenth_are_not_told_apart():
    found, sizes = tried(777, 512, 4096)
    assert 777 * 15 / 16 <= found <= 777
    assert len(sizes) <= 8


def test_the_variant_that_asks_for_a_search_gets_the_size():
    (techniques,) = parse_variants("amp+batch:auto:most=64")
    asked = searches(techniques)
    assert asked is not None
    assert asked.most == 64
    assert [technique.label for technique in sized(techniques, 12)] == ["amp", "batch:size=12"]
    assert searches(parse_variants("batch:size=4")[0]) is None


def search(*, peak=lambda size: 100.0 + 10 * size, dies_from=10**9, **launch) -> tuple[_Search, list[int]]:
    """A search over fake processes that take `peak` bytes."""
    run_sizes: list[int] = []

    def launched(spec: RunSpec) -> tuple[Run, list[RankRecord]]:
        size = int(spec.techniques[0].params["size"])
        run_sizes.append(size)
        assert spec.passes == ()
        if size >= dies_from:
            return Run(status=Status.OUT_OF_MEMORY, reason="out of memory"), []
        rss = measured(peak(size), "bytes", "test")
        memory = MemoryPeaks(allocated=NO, reserved=NO, driver_used=NO, rss=rss)
        return Run(status=Status.OK), [RankRecord(rank=0, world_size=1, status=Status.OK, memory=memory)]

    made = _Search(
        parse_variants("batch:auto")[0],
        lambda techniques: RunSpec(
            workload=WorkloadSpec(name="gpt"), techniques=techniques, launch=LaunchSpec(**launch)
        ),
        launched,
        lambda _: None,
        available=lambda: 1000.0,
    )
    return made, run_sizes


def test_a_trial_fits_if_it_leaves_the_margin():
    # 90 % of 1000 bytes are usable: 100 + 10 x 80.
    made, run_sizes = search()
    assert largest_fitting(made.fits, 10, 1024) in range(75, 81)
    assert made.limit_bytes == 1000.0
    assert max(run_sizes) <= 80


def test_on_a_cpu_what_is_expected_to_take_more_is_not_run():
    made, run_sizes = search()
    assert made.fits(10)
    assert made.fits(20)
    assert made.fits(100) is False
    assert run_sizes == [10, 20]
    assert made.trials[-1].reason.startswith("not run: ")
    assert made.trials[-1].peak_bytes is None


def test_within_a_limit_a_process_that_runs_out_of_memory_tells():
    made, run_sizes = search(dies_from=40, memory_limit_bytes=10_000)
    assert largest_fitting(made.fits, 10, 1024) in range(37, 40)
    assert 40 in run_sizes
    assert made.limit_bytes == 10_000
    assert {trial.fits for trial in made.trials if trial.size >= 40} == {False}


def test_a_trial_without_a_known_peak_does_not_count_as_fitting():
    made, _ = search(peak=lambda _: 0.0)
    made.launch = lambda _: (Run(status=Status.OK), [RankRecord(rank=0, world_size=1, status=Status.OK)])
    assert made.fits(1) is False
    assert made.trials[-1].reason == "its memory is not known"


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_on_a_gpu_the_limit_is_the_devices(share):
    from perfkit.record import Environment

    made, _ = search(device="cuda")
    reserved = measured(share * 2000, "bytes", "test")
    record = RankRecord(
        rank=0,
        world_size=1,
        status=Status.OK,
        memory=MemoryPeaks(allocated=NO, reserved=reserved, driver_used=NO, rss=NO),
        environment=Environment(
            hostname="h", platform="p", python="3", torch="2", device="cuda", device_name="GPU", device_count=1,
            device_memory_bytes=2000,
        ),
    )  # fmt: skip
    made.launch = lambda _: (Run(status=Status.OK), [record])
    assert made.fits(8) is (share < 0.9)
    assert made.limit_bytes == 2000.0
