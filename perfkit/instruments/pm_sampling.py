"""Samples the GPU's performance monitors while a trace is recorded (CUPTI's PM sampling, torch 2.14).

The samples become counters of the trace: activity of the SMs and of their Tensor Cores, and what device memory reads
and writes, in per cent of the peak. All metrics must fit into one pass, and their names differ by chip. Sampling locks
the GPU's clocks to their base, so that times of such a trace are not those of training.
"""

import importlib
from collections.abc import Collection, Sequence
from typing import Any

import torch

from perfkit.core.errors import UnavailableError
from perfkit.devices.accelerator import is_nvidia
from perfkit.instruments.profiler_backend import explain_missing_monitor

OPTION = "--counters pm"
LOCKED_CLOCKS = "sampling the performance monitors locks the GPU's clocks: times of the trace are at the base clock"
_MODULE = "torch.profiler._cupti.pm_sampling"
_SHARE = "avg.pct_of_peak_sustained_elapsed"
# Of each quantity the names that chips have for it, the newest first (Nsight Systems' metric sets, gh100 to tu10x).
_ACTIVE = ("sm__cycles_active",)
_TENSOR = ("sm__pipe_tensor_cycles_active", "sm__inst_executed_pipe_tensor_realtime", "sm__inst_executed_pipe_tensor")
_READ = ("dram__read_throughput",)
_WRITE = ("dram__write_throughput",)
_MEMORY = ("gpu__dram_throughput", "dram__throughput")
# Sets from the fullest to the least, for one pass.
_SETS = (
    (_ACTIVE, _TENSOR, _READ, _WRITE),
    (_ACTIVE, _READ, _WRITE),
    (_ACTIVE, _TENSOR, _MEMORY),
    (_ACTIVE, _MEMORY),
)
# Of a recording as many as the host's buffer holds: 18 KiB each (`torch/profiler/_cupti/pm_sampling.py`).
MOST_SAMPLES = 10_000
_SHORTEST_MS, _LONGEST_MS = 0.1, 1.0
_SLOWER = 4.0  # times the timed steps, at most, under the profiler


def check_pm_sampling(device: torch.device) -> None:
    """An `UnavailableError` says why the performance monitors cannot be sampled here, and what to do."""
    if not is_nvidia(device):
        raise UnavailableError(
            f"{OPTION} needs an NVIDIA GPU, but the device is {device.type}; omit it", id="skip.device"
        )
    reason = explain_missing_monitor()
    if reason:
        raise UnavailableError(f"{OPTION}: {reason}, or omit it", id="skip.package")


def start_sampling(device: torch.device, seconds: float) -> dict[str, Any]:
    """Choose the metrics of this GPU, and an interval for a recording of about so many timed seconds; returns the
    monitor's options of `torch.profiler`.

    `UnavailableError` where the monitors cannot be read.
    """
    check_pm_sampling(device)
    sampling = importlib.import_module(_MODULE)
    with torch.cuda.device(device):
        known = frozenset(sampling.supported_metrics())
        if not known:
            raise UnavailableError(
                f"{OPTION}: CUPTI lists no metrics of this GPU; run as root or with CAP_SYS_ADMIN, or load the driver "
                "with NVreg_RestrictProfilingToAdminUsers=0 (https://developer.nvidia.com/ERR_NVGPUCTRPERM)",
                id="skip.device",
            )
        interval_ms = choose_interval_ms(seconds)
        # Once in a process: later recordings keep the first one's interval.
        if not sampling.PmSampler.get_config()["configured"]:
            sampling.PmSampler.configure(
                sampling_interval_ms=interval_ms, lookback_window_ms=interval_ms * MOST_SAMPLES
            )
        metrics = choose_metrics(known, sampling.PmSampler(torch.cuda.current_device()))
    return {"enable_pm_sampling": True, "pm_metrics": list(metrics)}


def choose_interval_ms(seconds: float) -> float:
    """The shortest interval of which the samples of a recording of so many timed seconds fit into the buffer."""
    return min(_LONGEST_MS, max(_SHORTEST_MS, _SLOWER * seconds * 1e3 / MOST_SAMPLES))


def choose_metrics(known: Collection[str], sampler: Any) -> Sequence[str]:
    """The fullest set that the chip has and can collect in one pass, by CUPTI's names with their unit.

    `UnavailableError` where there is none.
    """
    for names in _SETS:
        chosen = [next((name for name in alternatives if name in known), "") for alternatives in names]
        if all(chosen):
            metrics = [f"{name}.{_SHARE}" for name in chosen]
            try:
                sampler._check_single_pass(metrics)
            except ValueError:
                continue
            return metrics
    raise UnavailableError(
        f"{OPTION}: this GPU cannot sample the activity of its SMs and memory in one pass; omit it", id="skip.device"
    )
