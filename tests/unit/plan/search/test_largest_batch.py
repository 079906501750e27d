"""The largest batch by plans that are made up: what fits, what is left free, and where it ends."""

import pytest

from perfkit.analysis.model.plan import Interval, PlannedBatch, PlannedPeak, PlannedVariant
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.gpu_memory.non_tensor_memory import list_non_tensor_memory
from perfkit.plan.search import largest_batch
from perfkit.plan.search.largest_batch import plan_largest_batch
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.store.request import BenchRequest

TARGET = CPU._replace(limit_bytes=1000)


def request_of(techniques: str) -> BenchRequest:
    return BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=tuple(parse_variants(techniques)),
        device="cpu",
        device_count=0,
        cores=1,
    )


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of 100 bytes and 10 a sample, whose upper end is 5 bytes higher; the names of what was planned."""
    names: list[str] = []

    def planned(run: ScheduledRun, _: Target) -> PlannedVariant:
        names.append(run.spec.variant)
        size = int(run.spec.workload.params["batch_size"])
        if size == 13:
            return PlannedVariant(name=run.spec.variant, world_size=1, reason="why")
        needed = 100 + 10 * size
        peak = PlannedPeak(value=needed, low=needed, high=needed + 5, phase="backward", categories={})
        return PlannedVariant(name=run.spec.variant, world_size=1, peak_allocated_bytes=peak)

    monkeypatch.setattr(largest_batch, "plan_variant", planned)
    return names


def test_the_upper_end_of_what_it_needs_leaves_the_margin(plans: list[str]) -> None:
    (techniques,) = request_of("ckpt").variants
    told: list[PlannedBatch] = []
    found = plan_largest_batch(
        request_of("ckpt"), techniques, TARGET, margin=0.1, first=20, most=1024, progress=told.append
    )
    # 105 + 10 x 79 = 895 of the 900 that are usable; sizes within a sixteenth are not told apart.
    assert (found.variant, found.limit_bytes, found.margin) == ("ckpt", 1000, 0.1)
    assert found.size == 77
    assert [each.size for each in found.sizes] == [20, 40, 80, 60, 70, 75, 77]
    assert list(found.sizes) == told
    assert plans == [f"ckpt+batch:size={each.size}" for each in told]
    assert [each.fits for each in told] == [True, True, False, True, True, True, True]


def test_batches_that_are_kept_in_main_memory_take_of_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample takes 10 bytes in a step, and 16 batches of it 40."""

    def planned(run: ScheduledRun, _: Target) -> PlannedVariant:
        size = int(run.spec.workload.params["batch_size"])
        peak = PlannedPeak(value=10 * size, low=10 * size, high=10 * size, phase="backward", categories={})
        return PlannedVariant(name="", world_size=1, peak_allocated_bytes=peak, batches_bytes=40 * size)

    monkeypatch.setattr(largest_batch, "plan_variant", planned)
    for with_batches, size in ((False, 16), (True, 4)):
        options = {"margin": 0.0, "first": 4, "most": 16, "with_batches": with_batches}
        assert plan_largest_batch(request_of("ckpt"), (), CPU._replace(limit_bytes=200), **options).size == size


def test_a_size_is_planned_under_what_is_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that would keep all that it may: only the limit that it is told makes it give segments back."""

    def planned(run: ScheduledRun, target: Target) -> PlannedVariant:
        assert target.limit_bytes is not None
        high = target.limit_bytes
        peak = PlannedPeak(value=100, low=100, high=high, phase="backward", categories={})
        return PlannedVariant(name=run.spec.variant, world_size=1, peak_allocated_bytes=peak)

    monkeypatch.setattr(largest_batch, "plan_variant", planned)
    found = plan_largest_batch(request_of("ckpt"), (), TARGET, margin=0.1, first=8, most=8)
    assert found.size == 8
    assert found.limit_bytes == 1000


def test_no_size_fits(plans: list[str]) -> None:
    found = plan_largest_batch(request_of("ckpt"), (), CPU._replace(limit_bytes=100), margin=0.0, first=4, most=64)
    assert found.size is None
    assert plans == ["batch:size=4", "batch:size=2", "batch:size=1"]


def test_the_search_ends_where_a_size_cannot_be_planned(plans: list[str]) -> None:
    found = plan_largest_batch(request_of("ckpt"), (), TARGET, margin=0.0, first=13, most=64)
    assert found.size is None
    assert found.sizes == (PlannedBatch(size=13, fits=None, reason="why"),)
    assert plans == ["batch:size=13"]


@pytest.mark.parametrize(("beside_bytes", "fits"), [(0, True), (2**20, False)])
def test_what_the_driver_keeps_is_no_part_of_the_margin(
    monkeypatch: pytest.MonkeyPatch, beside_bytes: int, fits: bool
) -> None:
    """Of 24 GiB the driver keeps 2 % at most, and a tenth of what remains is left free, as in a search by runs."""

    def planned(run: ScheduledRun, target: Target) -> PlannedVariant:
        beyond = list_non_tensor_memory(target, (2,), Interval(value=0, low=0, high=0))
        others = sum(row.bytes.high for row in beyond if row.name != "the driver's reserve")
        used = int(0.9 * 0.98 * 24 * 2**30 - others) - 8 + beside_bytes
        peak = PlannedPeak(value=used, low=used, high=used, phase="backward", categories={})
        return PlannedVariant(name=run.spec.variant, world_size=1, peak_allocated_bytes=peak, outside_allocator=beyond)

    monkeypatch.setattr(largest_batch, "plan_variant", planned)
    found = plan_largest_batch(request_of("ckpt"), (), parse_target("rtx-4090", None), margin=0.1, first=1, most=1)
    assert [each.fits for each in found.sizes] == [fits]
