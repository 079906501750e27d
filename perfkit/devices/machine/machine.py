"""Facts of this machine from the operating system: its processor, caches and memory, and the limits of a container.

Everything is read from Linux's /proc and /sys; what a system does not offer is None or empty.
"""

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

CGROUP = Path("/sys/fs/cgroup")

# Instruction sets that change which matrix kernels a library picks.
_MATTERING_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_int8",
    "amx_bf16",
    "amx_fp16",
    "asimd",
    "bf16",
    "i8mm",
    "sve",
    "sve2",
)


class DataCache(NamedTuple):
    """A level of data cache: bytes of one instance, and how many instances the usable CPUs have between them."""

    size_bytes: int
    instances: int


def read_cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Read the processor's name as the system reports it: `AMD EPYC 9R14`, or the architecture if it has no name."""
    fields = _read_cpuinfo(cpuinfo)
    return fields.get("model name") or fields.get("Hardware") or platform.processor() or platform.machine()


def read_cpu_identity(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Family, model and stepping: virtual machines often hide the processor's name, rarely these."""
    fields = _read_cpuinfo(cpuinfo)
    parts = (("family", "cpu family"), ("model", "model"), ("stepping", "stepping"), ("part", "CPU part"))
    return " ".join(f"{label} {fields[key]}" for label, key in parts if key in fields)


def read_cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...]:
    """The instruction sets present among those that change the speed of matrix products."""
    fields = _read_cpuinfo(cpuinfo)
    present = set((fields.get("flags") or fields.get("Features") or "").split())
    return tuple(flag for flag in _MATTERING_FLAGS if flag in present)


def _read_cpuinfo(path: Path) -> dict[str, str]:
    try:
        text = path.read_text()
    except OSError:
        return {}
    first_cpu = text.split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first_cpu.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def list_usable_cpus() -> tuple[int, ...]:
    """The CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def find_numa_node(cpu: int, root: Path = Path("/sys/devices/system/cpu")) -> int:
    """Find the NUMA node of this CPU, whose memory is nearest; 0 if the system does not report it."""
    nodes = [path.name.removeprefix("node") for path in (root / f"cpu{cpu}").glob("node*")]
    return next((int(node) for node in nodes if node.isdecimal()), 0)


def read_container_cpu_limit(root: Path = CGROUP) -> float | None:
    """Read the control group's CPU limit in CPUs; None without a limit."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def read_container_memory_limit(root: Path = CGROUP) -> int | None:
    """Read the control group's memory limit in bytes; None without a limit."""
    try:
        text = (root / "memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None  # "max" without a limit


def get_memory_bytes(root: Path = CGROUP) -> int:
    """The main memory that there is for this process: the machine's, within the container's limit."""
    total, limit = int(psutil.virtual_memory().total), read_container_memory_limit(root)
    return total if limit is None else min(total, limit)


def count_available_cores() -> int:
    """Count the CPUs that this process can use at once: its affinity, within the container's limit.

    In a Slurm job those of the job, which not every cluster keeps its processes to.
    """
    limits = (read_container_cpu_limit(), read_slurm_cpus())
    return max(1, min([len(list_usable_cpus()), *(int(limit) for limit in limits if limit is not None)]))


def read_slurm_cpus() -> int | None:
    """The CPUs of this machine that a Slurm job or step has, of which this process is one; None elsewhere."""
    value = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return int(value) if value.isdecimal() else None


def read_data_caches(cpus: Iterable[int], root: Path = Path("/sys/devices/system/cpu")) -> dict[int, DataCache]:
    """Level -> data or unified cache, over the given CPUs. Empty where the system does not tell."""
    sizes: dict[int, int] = {}
    sharers: dict[int, set[str]] = {}
    for cpu in cpus:
        for index in sorted((root / f"cpu{cpu}/cache").glob("index*")):
            try:
                kind = (index / "type").read_text().strip()
                level = int((index / "level").read_text())
                size = _parse_size((index / "size").read_text())
                shared_by = (index / "shared_cpu_list").read_text().strip()
            except (OSError, ValueError):
                continue
            if kind in ("Data", "Unified"):
                sizes[level] = size
                sharers.setdefault(level, set()).add(shared_by)
    return {level: DataCache(size, len(sharers[level])) for level, size in sizes.items()}


def _parse_size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if match is None:
        raise ValueError(f"not a cache size: {text!r}")
    return int(match[1]) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match[2]]


def read_cpu_pressure(path: Path = Path("/proc/pressure/cpu")) -> float | None:
    """Share of the last 10 s in which some task waited for a CPU (Linux pressure stall information)."""
    try:
        match = re.search(r"some avg10=([\d.]+)", path.read_text())
    except OSError:
        return None
    return float(match[1]) / 100 if match else None
