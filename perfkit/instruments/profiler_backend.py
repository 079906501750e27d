"""Chooses what records a GPU for torch.profiler: Kineto, or CUPTI's monitor where it is asked for and can run.

The monitor (torch 2.14, `torch/profiler/_cupti`) decodes CUPTI's records by their own layout, names kernels of CUDA
graphs, and samples the GPU's performance monitors. It needs the package `cupti-python` and CUPTI 13.3. Kineto reads the
same records, and with CUPTI from 12.6 update 2 until before 13.1 loses some (`perfkit.devices.cupti`).
"""

import importlib.util
import json
from typing import Any, NamedTuple

import torch
from torch._C._profiler import _ExperimentalConfig

from perfkit.devices.accelerator import is_nvidia

KINETO, MONITOR = "kineto", "cupti_monitor"
_MODULE = "torch.profiler._cupti"

# Why the monitor is not used again in this process; empty as long as it works.
_failed: list[str] = []


class ProfilerBackend(NamedTuple):
    """`name` is torch's, or `kineto`; `reason` is why it is not the monitor, "" if it is or was not asked for."""

    name: str
    reason: str = ""


def choose_backend(device: torch.device, *, monitored: bool) -> ProfilerBackend:
    """Choose the backend for a recording of `device`: the monitor if the recording is to be `monitored` and it can run.

    Kineto otherwise, also where the monitor could run: perfkit has seen no trace of the monitor from a GPU
    (docs/hardware.md).
    """
    if not monitored or not is_nvidia(device):
        return ProfilerBackend(KINETO)
    reason = next(iter(_failed), "") or explain_missing_monitor()
    return ProfilerBackend(KINETO, reason) if reason else ProfilerBackend(MONITOR)


def explain_missing_monitor() -> str:
    """Explain why CUPTI's monitor cannot run here, and what to do; "" if it can."""
    if importlib.util.find_spec(_MODULE) is None:
        return f"torch {torch.__version__} has no CUPTI monitor: install torch 2.14"
    try:
        cupti = importlib.import_module(f"{_MODULE}.cupti_python")
    except ImportError as error:
        return f"CUPTI's monitor needs the package cupti-python ({error}): pip install cupti-python"
    try:
        version = int(cupti.pylibcupti().get_version())
    except (OSError, RuntimeError) as error:
        return f"CUPTI's monitor cannot load {cupti.LIBCUPTI_SONAME}: {error}"
    least = int(cupti.LIBCUPTI_MIN_VERSION)
    if version < least:
        return (
            f"CUPTI's monitor needs CUPTI {_format_version(least)}, and {_format_version(version)} is loaded: "
            f"pip install 'nvidia-cuda-cupti>={_format_version(least)}'"
        )
    return ""


def mark_failed(reason: str) -> None:
    """From now on recordings of this process take Kineto."""
    _failed.append(f"CUPTI's monitor failed: {reason}")


def make_config(backend: ProfilerBackend, options: dict[str, Any]) -> _ExperimentalConfig | None:
    """The configuration of `torch.profiler.profile` for a backend; `options` are the monitor's own."""
    if backend.name != MONITOR:
        return None
    return _ExperimentalConfig(custom_profiler_config=json.dumps({"backend": MONITOR, **options}))


def make_plain_config() -> _ExperimentalConfig:
    """The configuration of torch's profiler without any of the options that torch calls experimental."""
    return _ExperimentalConfig()


def _format_version(version: int) -> str:
    """130300 -> 13.3."""
    return f"{version // 10000}.{version % 10000 // 100}"
