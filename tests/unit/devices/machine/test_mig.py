"""Each rank gets a MIG instance of its own, by a fake driver."""

import pytest

from perfkit.core.spec import LaunchSpec
from perfkit.devices.machine.mig import build_instance_variables, list_visible_instances
from perfkit.measure.launch.rank_processes import build_rank_variables
from tests.fixtures.fake_nvml import FakeGpu, FakeNvml


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    gpus = [FakeGpu("GPU-a", instances=("MIG-a0", "MIG-a1")), FakeGpu("GPU-b", instances=("MIG-b0",))]
    driver = FakeNvml(gpus)
    driver.install(monkeypatch)
    return driver


@pytest.mark.parametrize(
    ("chosen", "uuids"),
    [
        (None, ["MIG-a0", "MIG-a1", "MIG-b0"]),
        ("0", ["MIG-a0", "MIG-a1"]),
        ("1,0", ["MIG-b0", "MIG-a0", "MIG-a1"]),
        ("1,7,0", ["MIG-b0"]),
        ("MIG-b0,MIG-a1", ["MIG-b0", "MIG-a1"]),
        ("", []),
        ("MIG-gone", []),
    ],
)
def test_the_instances_that_may_be_used(
    driver: FakeNvml, monkeypatch: pytest.MonkeyPatch, chosen: str | None, uuids: list[str]
) -> None:
    if chosen is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", chosen)
    assert [instance.uuid for instance in list_visible_instances()] == uuids
    assert driver.open == 0


def test_a_whole_gpu_is_taken_as_before(driver: FakeNvml) -> None:
    driver.gpus[1].instances = ()
    assert list_visible_instances() == ()
    assert build_instance_variables(1) == {}


@pytest.mark.parametrize(("rank", "uuid"), [(0, "MIG-a0"), (1, "MIG-a1"), (2, "MIG-b0"), (3, "MIG-a0")])
def test_each_rank_is_started_with_its_own(driver: FakeNvml, rank: int, uuid: str) -> None:
    on_gpus = LaunchSpec(device="cuda", world_size=4)
    assert build_rank_variables(on_gpus, rank)["CUDA_VISIBLE_DEVICES"] == uuid
    assert "CUDA_VISIBLE_DEVICES" not in build_rank_variables(LaunchSpec(world_size=4), rank)


def test_what_the_launcher_has_chosen_stays(driver: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-a1")
    assert build_instance_variables(1) == {}
