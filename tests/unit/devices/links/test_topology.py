"""Which links lie between GPUs, by a fake driver: four GPUs in pairs with bridges, and eight at switches."""

import pynvml
import pytest

from perfkit.devices.links.topology import GpuGroup, choose_groups, find_slowest_link, read_kinds
from tests.fixtures.fake_nvml import FakeGpu, FakeNvml

PAIRS = {(0, 1): "NV2", (0, 2): "SYS", (0, 3): "SYS", (1, 2): "SYS", (1, 3): "PXB", (2, 3): "NV2"}


def bridged(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """GPUs 0 and 1, and 2 and 3, are joined by a bridge of two NVLinks; 1 and 3 are near each other besides."""
    driver = FakeNvml([FakeGpu(f"GPU-{index}", nvlinks=(f"GPU-{index ^ 1}",) * 2) for index in range(4)])
    driver.ancestors = {frozenset(("GPU-1", "GPU-3")): pynvml.NVML_TOPOLOGY_MULTIPLE}
    driver.install(monkeypatch)
    return driver


def test_the_kinds_of_bridged_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = bridged(monkeypatch)
    assert read_kinds(range(4)) == PAIRS
    assert driver.open == 0


def test_at_switches_every_link_leads_to_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml([FakeGpu(f"GPU-{index}", nvlinks=("switch",) * 18) for index in range(8)]).install(monkeypatch)
    kinds = read_kinds(range(8))
    assert set(kinds.values()) == {"NV18"}
    assert choose_groups(range(8), 2, kinds) == (GpuGroup((0, 1), "NV18"),)


def test_without_a_driver_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = bridged(monkeypatch)
    driver.gpus[2].forbidden = True
    assert read_kinds(range(4)) == {}


@pytest.mark.parametrize(
    ("gpus", "link"), [((0, 1), "NV2"), ((3, 1), "PXB"), ((0, 1, 2), "SYS"), ((0,), ""), ((0, 7), "")]
)
def test_the_slowest_link_bounds_a_group(gpus: tuple[int, ...], link: str) -> None:
    assert find_slowest_link(gpus, PAIRS) == link


def test_fewer_nvlinks_are_slower() -> None:
    assert find_slowest_link((0, 1, 2), {(0, 1): "NV12", (0, 2): "NV4", (1, 2): "NV12"}) == "NV4"


@pytest.mark.parametrize(
    ("order", "ranks", "groups"),
    [
        ((0, 1, 2, 3), 2, [((0, 1), "NV2"), ((0, 2), "SYS"), ((1, 3), "PXB")]),
        ((0, 2, 1, 3), 2, [((0, 2), "SYS"), ((0, 1), "NV2"), ((1, 3), "PXB")]),  # runs take 0 and 2
        ((0, 1, 2, 3), 4, [((0, 1, 2, 3), "SYS")]),
    ],
)
def test_a_group_for_each_kind_the_runs_own_first(
    order: tuple[int, ...], ranks: int, groups: list[tuple[tuple[int, ...], str]]
) -> None:
    assert [tuple(group) for group in choose_groups(order, ranks, PAIRS)] == groups
