"""Sampling performance monitors, with a stand-in for torch's sampler."""

import contextlib
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.instruments import pm_sampling
from perfkit.instruments.pm_sampling import check_pm_sampling, choose_interval_ms, choose_metrics, start_sampling
from tests.fixtures.errors import has_id

CUDA = torch.device("cuda", 0)
SHARE = "avg.pct_of_peak_sustained_elapsed"
TENSOR = "sm__inst_executed_pipe_tensor_realtime"
HOPPER = {"sm__cycles_active", TENSOR, "dram__read_throughput", "dram__write_throughput"}


class Sampler:
    """Collects so many metrics in one pass."""

    configured: dict[str, float] = {}

    def __init__(self, device: int | None = None, most: int = 4) -> None:
        self.most = most

    def _check_single_pass(self, metrics: Sequence[str]) -> None:
        if len(metrics) > self.most:
            raise ValueError

    @classmethod
    def get_config(cls) -> dict[str, bool]:
        return {"configured": bool(cls.configured)}

    @classmethod
    def configure(cls, **fields: float) -> None:
        cls.configured = fields


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> type[Sampler]:
    """A GPU of this process whose monitors can be sampled."""

    class Here(Sampler):
        configured: dict[str, float] = {}

    module = ModuleType("torch.profiler._cupti.pm_sampling")
    module.PmSampler = Here  # type: ignore[attr-defined]
    module.supported_metrics = lambda: frozenset(HOPPER)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "torch.profiler._cupti", ModuleType("torch.profiler._cupti"))
    monkeypatch.setattr(pm_sampling, "is_nvidia", lambda device: device.type == "cuda")
    monkeypatch.setattr(pm_sampling, "explain_missing_monitor", lambda: "")
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    return Here


def metrics(*names: str) -> list[str]:
    return [f"{name}.{SHARE}" for name in names]


@pytest.mark.parametrize(
    ("known", "most", "chosen"),
    [
        (HOPPER, 4, metrics("sm__cycles_active", TENSOR, "dram__read_throughput", "dram__write_throughput")),
        (HOPPER, 3, metrics("sm__cycles_active", "dram__read_throughput", "dram__write_throughput")),
        (HOPPER | {"gpu__dram_throughput"}, 2, metrics("sm__cycles_active", "gpu__dram_throughput")),
        ({"sm__cycles_active", "dram__throughput"}, 9, metrics("sm__cycles_active", "dram__throughput")),
    ],
)  # fmt: skip
def test_the_fullest_set_of_one_pass(known: Iterable[str], most: int, chosen: list[str]) -> None:
    assert list(choose_metrics(frozenset(known), Sampler(most=most))) == chosen


def test_a_gpu_without_such_metrics_is_refused() -> None:
    with pytest.raises(UnavailableError, check=has_id("skip.device")):
        choose_metrics(frozenset({"sm__cycles_active"}), Sampler())


@pytest.mark.parametrize(("seconds", "interval_ms"), [(0.01, 0.1), (1.0, 0.4), (100.0, 1.0)])
def test_the_samples_of_a_recording_fit_into_the_buffer(seconds: float, interval_ms: float) -> None:
    assert choose_interval_ms(seconds) == pytest.approx(interval_ms)


def test_the_options_of_a_recording(gpu: type[Sampler]) -> None:
    options = start_sampling(CUDA, seconds=0.5)
    assert options["enable_pm_sampling"] is True
    assert len(options["pm_metrics"]) == 4
    assert gpu.configured == {"sampling_interval_ms": pytest.approx(0.2), "lookback_window_ms": pytest.approx(2000.0)}
    start_sampling(CUDA, seconds=5.0)  # a process has one interval
    assert gpu.configured["sampling_interval_ms"] == pytest.approx(0.2)


@pytest.mark.usefixtures("gpu")
def test_monitors_that_may_not_be_read_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["torch.profiler._cupti.pm_sampling"], "supported_metrics", frozenset)
    with pytest.raises(UnavailableError, match="ERR_NVGPUCTRPERM", check=has_id("skip.device")):
        start_sampling(CUDA, seconds=1.0)


@pytest.mark.usefixtures("gpu")
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnavailableError, match="cpu", check=has_id("skip.device")):
        check_pm_sampling(torch.device("cpu"))
    monkeypatch.setattr(pm_sampling, "explain_missing_monitor", lambda: "install torch 2.14")
    with pytest.raises(UnavailableError, match=r"torch 2\.14", check=has_id("skip.package")):
        check_pm_sampling(CUDA)
