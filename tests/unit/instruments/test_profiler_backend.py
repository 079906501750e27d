"""The choice between Kineto and CUPTI's monitor, with stand-ins for what torch and cupti-python have."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from perfkit.instruments import profiler_backend
from perfkit.instruments.profiler_backend import (
    KINETO,
    MONITOR,
    ProfilerBackend,
    choose_backend,
    explain_missing_monitor,
    make_config,
    mark_failed,
)

CUDA = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _nvidia(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler_backend, "is_nvidia", lambda device: device.type == "cuda")
    monkeypatch.setattr(profiler_backend, "_failed", [])


def install(monkeypatch: pytest.MonkeyPatch, version: int | Exception) -> None:
    """A torch with the monitor, and libcupti of this version, or that cannot be loaded."""

    def load() -> SimpleNamespace:
        if isinstance(version, Exception):
            raise version
        return SimpleNamespace(get_version=lambda: version)

    bindings = ModuleType("torch.profiler._cupti.cupti_python")
    bindings.pylibcupti = load  # type: ignore[attr-defined]
    bindings.LIBCUPTI_SONAME = "libcupti.so.13"  # type: ignore[attr-defined]
    bindings.LIBCUPTI_MIN_VERSION = 130300  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.profiler._cupti", ModuleType("torch.profiler._cupti"))
    monkeypatch.setitem(sys.modules, bindings.__name__, bindings)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())


def test_a_cpu_has_no_monitor_and_needs_no_reason() -> None:
    assert choose_backend(torch.device("cpu"), monitored=True) == ProfilerBackend(KINETO)


def test_a_torch_without_the_monitor_records_with_kineto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert choose_backend(CUDA, monitored=True).name == KINETO
    assert "torch 2.14" in choose_backend(CUDA, monitored=True).reason


def test_without_its_package_the_monitor_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, 130400)
    monkeypatch.setitem(sys.modules, "torch.profiler._cupti.cupti_python", None)
    assert "pip install cupti-python" in explain_missing_monitor()


@pytest.mark.parametrize(
    ("version", "words"),
    [(130000, "13.3"), (130299, "13.3"), (OSError("no file"), "no file"), (RuntimeError("x"), "x")],
)
def test_a_library_that_cannot_serve_it_is_named(
    monkeypatch: pytest.MonkeyPatch, version: int | Exception, words: str
) -> None:
    install(monkeypatch, version)
    assert words in explain_missing_monitor()


def test_the_monitor_records_where_it_can_run_until_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, 130300)
    assert choose_backend(CUDA, monitored=True) == ProfilerBackend(MONITOR)
    mark_failed("no trace")
    assert choose_backend(CUDA, monitored=True).name == KINETO
    assert "no trace" in choose_backend(CUDA, monitored=True).reason


def test_kineto_records_where_nothing_asks_for_the_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, 130300)
    assert choose_backend(CUDA, monitored=False) == ProfilerBackend(KINETO)


def test_only_the_monitor_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiler_backend, "_ExperimentalConfig", lambda **options: options)  # torch 2.9 hides them
    assert make_config(ProfilerBackend(KINETO), {"enable_pm_sampling": True}) is None
    config = make_config(ProfilerBackend(MONITOR), {"enable_pm_sampling": True})
    assert config == {"custom_profiler_config": '{"backend": "cupti_monitor", "enable_pm_sampling": true}'}
