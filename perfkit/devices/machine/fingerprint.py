"""The fingerprint of a machine for measured ceilings: if any part changes, they must be measured again."""

import hashlib
import re
from importlib.metadata import PackageNotFoundError, version

import pynvml

from perfkit.core.errors import UsageError
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.machine import machine, nvml
from perfkit.devices.machine.device_choice import CALIBRATED


def check_device(device: str) -> None:
    """A `UsageError` for a kind of device that cannot be calibrated."""
    if device not in CALIBRATED:
        raise UsageError(f"device {device!r} cannot be calibrated; expected one of {', '.join(CALIBRATED)}")


def build_fingerprint(device: str, device_name: str) -> str:
    """Build one readable line that names the device, its limits and the measured version of torch.

    `device_name` is that of the GPU; the CPU is queried here, so that every caller gets the same answer.
    """
    parts = _describe_cpu() if is_cpu(device) else _describe_gpu(device_name)
    return "; ".join((*parts, f"torch {_get_torch_version()}"))


def make_file_stem(text: str) -> str:
    """A file name for a fingerprint: its readable beginning and a hash of the whole."""
    start = re.sub(r"[^a-z0-9]+", "-", text.partition(";")[0].lower()).strip("-")[:40]
    return f"{start}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _describe_cpu() -> list[str]:
    cpus = machine.list_usable_cpus()
    limit = machine.read_container_cpu_limit()
    caches = machine.read_data_caches(cpus)
    return [
        machine.read_cpu_model(),
        machine.read_cpu_identity() or "model unknown",
        f"{len(cpus)} usable CPUs",
        "no container limit" if limit is None else f"container limit {limit:g} CPUs",
        "flags " + (" ".join(machine.read_cpu_flags()) or "unknown"),
        "caches "
        + (
            ", ".join(f"L{k} {c.instances} x {format_bytes(c.size_bytes)}" for k, c in sorted(caches.items()))
            or "unknown"
        ),
    ]


def _describe_gpu(device_name: str) -> list[str]:
    """Driver and memory from NVML, which needs neither torch nor a CUDA context."""
    try:
        with nvml.open_nvml():
            parts = [device_name, f"driver {nvml.decode_text(pynvml.nvmlSystemGetDriverVersion())}"]
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                if nvml.decode_text(pynvml.nvmlDeviceGetName(handle)) == device_name:
                    parts.append(format_bytes(pynvml.nvmlDeviceGetMemoryInfo(handle).total))
                    break
            return parts
    except pynvml.NVMLError as error:
        return [device_name, f"driver unknown ({error})"]


def _get_torch_version() -> str:
    """From the installed package, since importing torch takes seconds."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return "not installed"
