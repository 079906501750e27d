"""The largest batch by plans that are made up: what fits, what is left free, where it ends, and what it predicts."""

from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import Interval, LargestSize, PlannedPeak, PlannedSize, PlannedVariant
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.devices.machine.device_choice import ChosenDevice
from perfkit.measure.rank.limits import MARGIN
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.gpu_memory.non_tensor_memory import list_non_tensor_memory
from perfkit.plan.search import largest_batch
from perfkit.plan.search.largest_batch import estimate_process_bytes, plan_largest_size, predict_batch
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
    told: list[PlannedSize] = []
    found = plan_largest_size(
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
        assert plan_largest_size(request_of("ckpt"), (), CPU._replace(limit_bytes=200), **options).size == size


def test_a_size_is_planned_under_what_is_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocator that would keep all that it may: only the limit that it is told makes it give segments back."""

    def planned(run: ScheduledRun, target: Target) -> PlannedVariant:
        assert target.limit_bytes is not None
        high = target.limit_bytes
        peak = PlannedPeak(value=100, low=100, high=high, phase="backward", categories={})
        return PlannedVariant(name=run.spec.variant, world_size=1, peak_allocated_bytes=peak)

    monkeypatch.setattr(largest_batch, "plan_variant", planned)
    found = plan_largest_size(request_of("ckpt"), (), TARGET, margin=0.1, first=8, most=8)
    assert found.size == 8
    assert found.limit_bytes == 1000


def test_no_size_fits(plans: list[str]) -> None:
    found = plan_largest_size(request_of("ckpt"), (), CPU._replace(limit_bytes=100), margin=0.0, first=4, most=64)
    assert found.size is None
    assert plans == ["batch:size=4", "batch:size=2", "batch:size=1"]


def test_the_search_ends_where_a_size_cannot_be_planned(plans: list[str]) -> None:
    found = plan_largest_size(request_of("ckpt"), (), TARGET, margin=0.0, first=13, most=64)
    assert found.size is None
    assert found.sizes == (PlannedSize(size=13, fits=None, variant="batch:size=13", reason="why"),)
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
    found = plan_largest_size(request_of("ckpt"), (), parse_target("rtx-4090", None), margin=0.1, first=1, most=1)
    assert [each.fits for each in found.sizes] == [fits]


REQUEST = BenchRequest(
    workload=WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 2}),
    variants=(),
    device="cpu",
    device_count=0,
    cores=8,
    memory_limit_bytes=8 * 2**30,
)
ON_GPU = replace(REQUEST, device="cuda", device_count=2, memory_limit_bytes=None)


class Largest:
    """In the place of a search by plans: keeps what it was asked."""

    def __init__(self, size: int | None = 24) -> None:
        self.size = size
        self.request = REQUEST
        self.target = Target()
        self.options: dict[str, Any] = {}

    def __call__(self, request: BenchRequest, _: object, target: Target, **options: Any) -> LargestSize:
        self.request, self.target, self.options = request, target, options
        return LargestSize(variant="batch:auto", size=self.size, limit_bytes=1, margin=0.0, most=1, sizes=())


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> Largest:
    made = Largest()
    monkeypatch.setattr(largest_batch, "plan_largest_size", made)
    monkeypatch.setattr(largest_batch, "read_batch_size", lambda *_: 2)
    return made


def predicted(request: BenchRequest, variant: str) -> int | None:
    (techniques,) = parse_variants(variant)
    return predict_batch(request, techniques, 64)


def gpu(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(largest_batch, "find_device", lambda _: ChosenDevice("cuda", name, 2))


def test_on_a_cpu_the_margin_and_what_is_beside_tensors_is_taken_off(
    largest: Largest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        largest_batch, "estimate_process_bytes", lambda threads, addresses: 2**30 * threads if addresses else 0
    )
    assert predicted(replace(REQUEST, threads=1), "batch:auto") == 24
    assert largest.target.limit_bytes == int((1 - MARGIN) * 8 * 2**30) - 2**30
    assert (largest.options["margin"], largest.options["first"], largest.options["most"]) == (0.0, 2, 64)
    assert largest.options["with_batches"]
    assert predicted(REQUEST, "batch:auto") is None  # eight threads take more than there is


def test_on_a_gpu_its_own_memory_is_the_limit(largest: Largest, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "NVIDIA A100-SXM4-40GB")
    assert predicted(ON_GPU, "batch:auto") == 24
    assert (largest.target.device, largest.target.limit_bytes) == ("a100-sxm-40gb", 40 * 2**30)
    assert largest.options["margin"] == MARGIN
    assert not largest.options["with_batches"]  # they are on the host

    assert largest.request.world_size == 1


def test_shards_are_of_all_gpus(largest: Largest, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "NVIDIA A100-SXM4-40GB")
    assert predicted(ON_GPU, "zero3+batch:auto") == 24
    assert largest.request.world_size == 2
    assert predicted(replace(ON_GPU, device_count=1), "zero3+batch:auto") is None  # it cannot run there


def test_of_a_gpu_that_is_not_known_nothing_is_predicted(largest: Largest, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu(monkeypatch, "A GPU of tomorrow")
    assert predicted(ON_GPU, "batch:auto") is None


def test_what_cannot_be_planned_is_not_predicted(largest: Largest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largest_batch, "estimate_process_bytes", lambda threads, addresses: 0)
    largest.size = None
    assert predicted(REQUEST, "batch:auto") is None


def test_a_thread_takes_a_stack_and_an_arena_of_addresses() -> None:
    resident = estimate_process_bytes(1, addresses=False)
    one, two = (estimate_process_bytes(threads, addresses=True) for threads in (1, 2))
    assert 0 < resident < one
    assert resident <= psutil.Process().memory_full_info().rss * 2
    assert two - one == (8 + 64) * 2**20
