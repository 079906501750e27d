"""The parent of a bench never uses CUDA: with a fake driver, and a `torch.cuda` that fails when it is initialised."""

import pytest
import torch
from rich.console import Console

import perfkit.measure.bench
import perfkit.measure.suite_writer
from perfkit.core.errors import UsageError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.spec import parse_variants
from perfkit.devices.machine import visible_gpus
from perfkit.devices.machine.device_choice import ChosenDevice, find_device
from perfkit.store.request import BenchRequest
from perfkit.workloads.workload_table import resolve_workload
from perfkit_cli.options.bench_request import resolve_ceilings
from tests.fixtures.fake_nvml import FakeGpu, FakeNvml


@pytest.fixture
def driver(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(visible_gpus, "_has_cuda_driver", lambda: True)
    for name in ("_lazy_init", "init", "is_available", "device_count", "get_device_name", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: pytest.fail("CUDA was used"))
    driver = FakeNvml([FakeGpu("GPU-a0"), FakeGpu("GPU-b1")])
    driver.install(monkeypatch)
    return driver


@pytest.mark.parametrize("wanted", ["auto", "cuda"])
def test_the_gpus_are_known_without_cuda(driver, wanted):
    assert find_device(wanted) == ChosenDevice("cuda", "NVIDIA H100 80GB HBM3", 2)
    assert driver.open == 0


def test_a_cpu_is_not_asked_of_the_driver(driver, monkeypatch):
    monkeypatch.setattr(visible_gpus, "list_visible_gpus", lambda: pytest.fail("GPUs were looked for"))
    assert find_device("cpu").kind == "cpu"


def test_no_gpu(driver):
    driver.gpus = []
    assert find_device("auto").kind == "cpu"
    with pytest.raises(UsageError, match=r"--device cuda: .*--device cpu"):
        find_device("cuda")


@pytest.mark.parametrize("wanted", ["auto", "xpu"])
def test_the_xpus_of_a_torch_that_is_built_for_them(driver, monkeypatch, wanted):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "xpu", "20250301")
    monkeypatch.setattr(visible_gpus, "_list_by_torch", lambda: ("Intel GPU",))
    assert find_device(wanted) == ChosenDevice("xpu", "Intel GPU", 1)
    with pytest.raises(UsageError):
        find_device("cuda")


def test_an_xpu_is_not_a_gpu_of_cuda(driver):
    with pytest.raises(UsageError):
        find_device("xpu")
    assert find_device("xpu", here=False) == ChosenDevice("xpu", "", 0)


def test_ranks_elsewhere_may_have_gpus_that_are_not_here(driver):
    driver.gpus = []
    assert find_device("cuda", here=False) == ChosenDevice("cuda", "", 0)
    assert find_device("auto", here=False).kind == "cpu"
    driver.gpus = [FakeGpu("GPU-a0")]
    assert find_device("cuda", here=False) == ChosenDevice("cuda", "NVIDIA H100 80GB HBM3", 1)


@pytest.mark.parametrize(("count", "sizes"), [(8, [2, 4]), (2, [2]), (0, [])])
def test_links_are_measured_among_gpus_that_are_seen_here(monkeypatch, count, sizes):
    asked = {}
    monkeypatch.setattr(perfkit.measure.bench, "resolve_ceilings", lambda *_, **options: asked.update(options))
    request = BenchRequest(
        workload=resolve_workload("gpt:size=nano", "cuda", 1, 32),
        variants=tuple(parse_variants("baseline")),
        device="cuda",
        device_count=count,
        cores=1,
        world_sizes=(2, 4),
        launcher="slurm",
    )
    perfkit.measure.bench.resolve_request_ceilings(request, "")
    assert asked["ranks"] == sizes
    assert asked["calibrate"] == (count > 0)


def test_a_bench_starts_its_runs_without_having_used_cuda(driver, monkeypatch, tmp_path):
    started = []

    def launch(spec, folder, report, **_):
        started.append(spec.variant)
        return RunResult(status=RunStatus.OK, reason="", perfkit="test")

    monkeypatch.setattr(perfkit.measure.suite_writer, "launch_run", launch)
    found = find_device("auto")
    request = BenchRequest(
        workload=resolve_workload("gpt:size=nano", found.kind, 1, 32),
        variants=tuple(parse_variants("amp,zero1")),
        device=found.kind,
        device_count=found.visible,
        cores=2,
        rounds=0,
        calibrate=False,
    )
    ceilings = resolve_ceilings(request, found.name, console=Console(quiet=True))
    assert "driver 580.65.06; 80.0 GiB" in ceilings.fingerprint
    perfkit.measure.bench.run_bench(
        request, tmp_path / "suite", command="", ceilings=ceilings, progress=lambda event: None
    )
    assert started == ["baseline", "amp", "baseline@2", "zero1@2"]
