"""The environment of a rank: device, driver, torch, threads, limits, revision."""

import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import psutil
import torch

from perfkit.core.git import read_revision
from perfkit.core.record import Environment
from perfkit.devices.accelerator import get_accelerator, has_own_memory, is_cuda
from perfkit.devices.machine.fp32_precision import read_fp32_settings
from perfkit.devices.machine.machine import (
    list_usable_cpus,
    read_container_cpu_limit,
    read_container_memory_limit,
    read_cpu_model,
)
from perfkit.instruments.variables import recorded_variables

PACKAGES = ("numpy", "triton", "transformers", "torchao", "deepspeed", "peft", "bitsandbytes", "pytorch-optimizer")

# The words of torch's older switch, which records have always had.
_MATMUL_WORDS = {"ieee": "highest", "tf32": "high", "bf16": "medium"}


def read_environment(device: torch.device) -> Environment:
    """The environment of this process. What cannot be read is None."""
    model = read_cpu_model()
    host = Environment(
        hostname=socket.gethostname(),
        platform=platform.platform(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        device=device.type,
        affinity=list_usable_cpus(),
        device_name=model or "cpu",
        device_count=1,
        cpu_model=model,
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        cpu_cores=psutil.cpu_count(logical=False),
        cpu_governor=_read_text(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        threads=torch.get_num_threads(),
        memory_total_bytes=psutil.virtual_memory().total,
        container_cpu_limit=read_container_cpu_limit(),
        container_memory_limit_bytes=read_container_memory_limit(),
        git_revision=read_revision(Path()),
        packages=_list_packages(),
        variables=recorded_variables(os.environ, on_gpu=has_own_memory(device)),
    )
    return add_fp32_settings(_add_gpu_facts(host, device) if has_own_memory(device) else host, device)


def add_fp32_settings(environment: Environment, device: torch.device) -> Environment:
    """Add torch's current fp32 precision to `environment`: a program may set it late."""
    fp32 = read_fp32_settings(device)
    return msgspec.structs.replace(
        environment, matmul_precision=_MATMUL_WORDS[fp32.matmul], conv_precision=fp32.conv, rnn_precision=fp32.rnn
    )


def _add_gpu_facts(host: Environment, device: torch.device) -> Environment:
    accelerator = get_accelerator(device)
    properties = accelerator.runtime.get_device_properties(device)
    return msgspec.structs.replace(
        host,
        device_name=properties.name,
        device_count=accelerator.runtime.device_count(),
        device_memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}" if is_cuda(device) else None,
        driver=_read_nvidia_driver() if accelerator.has_nvml else getattr(properties, "driver_version", None),
        cuda=torch.version.cuda or torch.version.hip,
        nccl=nccl_version(),
    )


def nccl_version() -> str | None:
    """The version of the NCCL (on ROCm: RCCL) that torch runs with; None for a build without."""
    if not torch.distributed.is_nccl_available():
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def _read_nvidia_driver() -> str | None:
    import pynvml  # only with a GPU: the library asks the driver when it is initialized

    try:
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def _list_packages() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _read_text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
