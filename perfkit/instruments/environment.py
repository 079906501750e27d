"""The environment of a rank: device, driver, torch, threads, limits, revision."""

import os
import platform
import re
import socket
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import psutil
import torch

from perfkit.core.git import read_revision
from perfkit.core.record.environment import Environment
from perfkit.core.texts.redact import redact_text
from perfkit.devices.accelerator import VISIBILITY, get_accelerator, has_own_memory, is_cuda
from perfkit.devices.machine.fp32_precision import read_fp32_settings
from perfkit.devices.machine.machine import (
    list_usable_cpus,
    read_container_cpu_limit,
    read_container_memory_limit,
    read_cpu_model,
)
from perfkit.devices.machine.shared_gpu import SHARED_GPU

VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_HIP_ALLOC_CONF", "NCCL_ALGO", "NCCL_PROTO", "GLOO_SOCKET_IFNAME", "LD_PRELOAD", "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_THRESHOLD_", "TORCHINDUCTOR_FX_GRAPH_CACHE", *VISIBILITY,
)  # fmt: skip
# Of messages between ranks: NCCL's own, those of torch's process group (ProcessGroupNCCL.hpp), and RCCL's.
_OF_MESSAGES = ("NCCL_", "TORCH_NCCL_", "RCCL_")
# perfkit has its ranks leave a dump, which changes no step.
_OWN = ("TORCH_NCCL_DUMP_ON_TIMEOUT",)
# Which perfkit sets for each rank where ranks share a GPU.
_OF_SHARING = ("NCCL_HOSTID", "NCCL_SOCKET_IFNAME")

NOT_RECORDED = "(set; not recorded because it looks like a secret)"
# NCCL_IB_PKEY is the index of a partition.
_SECRET_NAME = re.compile(r"(?<!P)KEY|TOKEN|SECRET|PASS(WORD|WD|PHRASE)|CREDENTIAL|AUTH")
# 32 characters and more in one piece, in large and small letters and digits: no number, path or list of names.
_SECRET_VALUE = re.compile(r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[\w+=-]{32,}$")


def recorded_variables(variables: Mapping[str, str], *, on_gpu: bool) -> dict[str, str]:
    """Those of `variables` that a record keeps; those of messages on a GPU, and where there are several ranks."""
    names = set(VARIABLES) & variables.keys()
    if on_gpu or variables.get("WORLD_SIZE", "1") != "1":
        names |= {name for name in variables if name.startswith(_OF_MESSAGES)}.difference(_OWN)
        if variables.get(SHARED_GPU) == "1":
            names = {SHARED_GPU} | names.difference(_OF_SHARING)
    return {name: _without_secret(name, variables[name]) for name in sorted(names)}


def _without_secret(name: str, value: str) -> str:
    is_secret = _SECRET_NAME.search(name) or _SECRET_VALUE.search(value) or redact_text(value) != value
    return NOT_RECORDED if is_secret else value


PACKAGES = ("numpy", "triton", "transformers", "torchao", "deepspeed", "peft", "bitsandbytes", "pytorch-optimizer")

_CPU_CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq")
# In `torch.__config__.show()`, which has no field for either.
ONEDNN = re.compile(r"(?:MKL-DNN|oneDNN) v([\d.]+)")
MKL = re.compile(r"Math Kernel Library Version ([\d.]+)")

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
        cpu_governor=_read_text(_CPU_CLOCK / "scaling_governor"),
        cpu_max_hz=_read_max_clock(),
        threads=torch.get_num_threads(),
        memory_total_bytes=psutil.virtual_memory().total,
        container_cpu_limit=read_container_cpu_limit(),
        container_memory_limit_bytes=read_container_memory_limit(),
        git_revision=read_revision(Path()),
        packages=_list_packages(),
        variables=recorded_variables(os.environ, on_gpu=has_own_memory(device)),
        onednn=read_build_version(ONEDNN, torch.__config__.show()),
        mkl=read_build_version(MKL, torch.__config__.show()),
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
        cudnn=format_cudnn_version(torch.backends.cudnn.version()) if is_cuda(device) else None,
    )


def nccl_version() -> str | None:
    """The version of the NCCL (on ROCm: RCCL) that torch runs with; None for a build without."""
    if not torch.distributed.is_nccl_available():
        return None
    return ".".join(map(str, torch.cuda.nccl.version()))


def read_build_version(library: re.Pattern[str], build: str) -> str | None:
    """The version of a library in torch's description of its build; None if it was built without."""
    found = library.search(build)
    return found[1] if found else None


def format_cudnn_version(number: int | None) -> str | None:
    """cuDNN's version of its number: 9.24.0 of 92400, 8.9.2 of 8902 (`CUDNN_VERSION` in cudnn_version.h)."""
    if number is None:
        return None
    major = 10_000 if number >= 90_000 else 1_000
    return f"{number // major}.{number % major // 100}.{number % 100}"


def _read_max_clock() -> float | None:
    text = _read_text(_CPU_CLOCK / "scaling_max_freq")  # in kHz
    return float(text) * 1e3 if text else None


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
