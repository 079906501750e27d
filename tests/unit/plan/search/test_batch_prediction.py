"""Where a search for the largest batch begins: what a plan is asked for on a CPU and on a GPU, which is a fake here."""

from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.analysis.model.plan import LargestBatch
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.devices.machine.device_choice import ChosenDevice
from perfkit.measure.rank.limits import MARGIN
from perfkit.plan.search import batch_prediction as module
from perfkit.plan.search.batch_prediction import predict_batch
from perfkit.plan.target.target import Target
from perfkit.store.request import BenchRequest

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

    def __call__(self, request: BenchRequest, _: object, target: Target, **options: Any) -> LargestBatch:
        self.request, self.target, self.options = request, target, options
        return LargestBatch(variant="batch:auto", size=self.size, limit_bytes=1, margin=0.0, most=1, sizes=())


@pytest.fixture
def largest(monkeypatch: pytest.MonkeyPatch) -> Largest:
    made = Largest()
    monkeypatch.setattr(module, "plan_largest_batch", made)
    monkeypatch.setattr(module, "read_batch_size", lambda *_: 2)
    return made


def predicted(request: BenchRequest, variant: str) -> int | None:
    (techniques,) = parse_variants(variant)
    return predict_batch(request, techniques, 64)


def gpu(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(module, "find_device", lambda _: ChosenDevice("cuda", name, 2))


def test_on_a_cpu_the_margin_and_what_is_beside_tensors_is_taken_off(
    largest: Largest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "estimate_process_bytes", lambda threads, addresses: 2**30 * threads if addresses else 0
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
    monkeypatch.setattr(module, "estimate_process_bytes", lambda threads, addresses: 0)
    largest.size = None
    assert predicted(REQUEST, "batch:auto") is None
