"""Who else uses a GPU, with a fake NVML: on the host, in containers of either kind of driver, and where it is mute."""

import os
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from perfkit.devices.calibration import gpu_usage
from perfkit.devices.calibration.gpu_usage import GpuUse, find_gpu_use, is_in_container, judge_processes, read_own_pids

OWN = os.getpid()


class FakeNvml:
    """Lists processes of one GPU. What is not supported raises, as NVML does."""

    def __init__(
        self, compute: list[int], graphics: list[int] | None = None, mps: list[int] | None = None, gpu: int = 0
    ) -> None:
        self.compute, self.graphics, self.mps, self.gpu = compute, graphics, mps, gpu
        self.name = "GPU-abc"
        self.open = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "FakeNvml":
        monkeypatch.setattr(pynvml, "nvmlInit", lambda: setattr(self, "open", self.open + 1))
        monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: setattr(self, "open", self.open - 1))
        monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", self.handle)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetMigMode", self.mig_mode)
        monkeypatch.setattr(pynvml, "nvmlDeviceGetUtilizationRates", self.utilization)
        for query, pids in (
            ("nvmlDeviceGetComputeRunningProcesses", self.compute),
            ("nvmlDeviceGetGraphicsRunningProcesses", self.graphics),
            ("nvmlDeviceGetMPSComputeRunningProcesses", self.mps),
        ):
            monkeypatch.setattr(pynvml, query, lambda handle, pids=pids: self.listed(pids))
        return self

    def handle(self, name: str) -> str:
        if name != self.name:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return name

    def utilization(self, handle: str) -> SimpleNamespace:
        if handle.startswith("MIG-"):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(gpu=self.gpu)

    def mig_mode(self, handle: str) -> list[int]:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def listed(self, pids: list[int] | None) -> list[SimpleNamespace]:
        if pids is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return [SimpleNamespace(pid=pid) for pid in pids]


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_usage, "is_in_container", lambda: False)


DESKTOP = "1 other process is drawing with it"


@pytest.mark.parametrize(
    ("nvml", "expected"),
    [
        (FakeNvml([OWN, OWN], graphics=[]), GpuUse()),  # this process, however often it is listed
        (FakeNvml([OWN, 99]), GpuUse(busy="1 other process is on it (99)")),
        (FakeNvml([OWN], mps=[99]), GpuUse(busy="1 other process is on it (99)")),
        (FakeNvml([OWN], graphics=[99]), GpuUse(unknown=DESKTOP)),  # a desktop is said and is no work
        (FakeNvml([OWN, 98], graphics=[99]), GpuUse(busy="1 other process is on it (98)")),
        (FakeNvml([99]), GpuUse(busy="1 other process is on it (99)")),
        (FakeNvml([], gpu=40), GpuUse(busy="utilization was 40% before the measurement")),
    ],
)
def test_processes_that_are_listed(nvml: FakeNvml, expected: GpuUse, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.install(monkeypatch)
    assert find_gpu_use("abc") == expected
    assert nvml.open == 0


def test_where_nvml_lists_nobody_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml([]).install(monkeypatch)
    found = find_gpu_use("abc")
    assert found.busy == ""
    assert "container" in found.unknown


def test_a_slice_has_processes_but_no_utilization(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([OWN, 99]).install(monkeypatch)
    nvml.name = "MIG-abc"
    assert "99" in find_gpu_use("abc").busy


def test_an_error_of_nvml_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml([OWN]).install(monkeypatch)
    assert find_gpu_use("another device").unknown.endswith("(Not Found)")
    assert nvml.open == 0

    def no_driver() -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", no_driver)
    assert find_gpu_use("abc").unknown.startswith("NVML ")


@pytest.mark.parametrize(
    ("listed", "busy", "unknown"),
    [
        ({5}, "", "only this container's processes"),  # drivers that translate process ids hide all others
        ({5, 6}, "1 other process is on it (6)", ""),
        ({4711}, "", "possibly this one"),  # older drivers give the host's ids, and one of them is ours
        ({4711, 4712}, "1 other process is on it", ""),
        (set(), "", "cannot see others"),
    ],
)
def test_in_a_container(listed: set[int], busy: str, unknown: str) -> None:
    found = judge_processes(frozenset(listed), frozenset({5}), contained=True)
    assert busy in found.busy
    assert unknown in found.unknown
    assert bool(found.busy) == bool(busy)
    assert bool(found.unknown) == bool(unknown)


def test_a_process_knows_its_ids_in_the_namespaces_above(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nPid:\t5\nNStgid:\t4711\t5\nNSpid:\t4711\t5\nNSpgid:\t1\t1\n")
    assert read_own_pids(status) == {OWN, 4711, 5}
    assert read_own_pids(tmp_path / "missing") == {OWN}


def test_the_hosts_namespace_is_known_by_its_number(tmp_path: Path) -> None:
    host, other = tmp_path / "host", tmp_path / "other"
    host.symlink_to("pid:[4026531836]")
    other.symlink_to("pid:[4026532277]")
    assert not is_in_container(host)
    assert is_in_container(other)
    assert not is_in_container(tmp_path / "missing")
