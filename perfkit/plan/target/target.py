"""The target of a plan: a CPU or a cataloged GPU, with a rank's memory limit."""

import os
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.parse_units import parse_amount
from perfkit.core.record.environment import Environment
from perfkit.core.units import format_bytes
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.catalog import CatalogEntry, find_entry_with_memory, resolve_entry
from perfkit.devices.machine.machine import get_memory_bytes
from perfkit.devices.machine.nvml import read_gpu_memory

_EXPANDABLE_SEGMENTS = "expandable_segments"

# The first one set counts (c10/core/AllocatorConfig.h of torch 2.13).
_ALLOCATOR_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")

# `max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8]`
_ALLOCATOR_SETTING = re.compile(r"(\w+):(\[[^\]]*\]|[^,\[\]]+)")


class Target(NamedTuple):
    """A device with its limits.

    Attributes:
        device: `cpu`, or the GPU's id in the catalog.
        kind: torch's device type; AMD GPUs are `cuda`, too.
        entry: the GPU in the catalog, None for a CPU.
        capacity_bytes: nominal memory of the GPU; for a CPU, of its machine or container.
        limit_bytes: memory limit of a rank; None for a CPU without a given limit.
        ranks_per_node: directly linked GPUs.
        network_bytes_per_s: bandwidth of a GPU to other nodes, in one direction; None if unknown.
        disk_bytes_per_s: at which a rank writes a checkpoint; None if unknown.
        expandable_segments: True if the environment (of a recorded run, its own) enables them in torch's allocator.
        other_settings: other allocator settings of the environment.
    """

    device: str = "cpu"
    kind: Literal["cpu", "cuda"] = "cpu"
    entry: CatalogEntry | None = None
    capacity_bytes: int | None = None
    limit_bytes: int | None = None
    ranks_per_node: int = 8
    network_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    expandable_segments: bool = False
    other_settings: tuple[str, ...] = ()

    def shrink_limit(self, share: float) -> "Target":
        """The device with the limit reduced by a share; the driver's reserve comes off the remainder."""
        assert self.limit_bytes is not None
        less = int(share * self.limit_bytes)
        capacity = None if self.capacity_bytes is None else self.capacity_bytes - less
        return self._replace(capacity_bytes=capacity, limit_bytes=self.limit_bytes - less)


CPU = Target()


def parse_target(gpu: str | None, memory: str | None) -> Target:
    """The target named by `--gpu` and `--memory`; `memory` is a share of the device (`0.9`, `90%`) or an amount.

    Raises:
        UsageError: an unknown GPU, with similar names; a GPU with several memory sizes; or memory that is no amount or
            exceeds the device.
    """
    return _make_cpu_target(None, memory) if gpu is None else _make_gpu_target(resolve_entry(gpu), memory, os.environ)


def make_gpu_target(entry: CatalogEntry, memory: str | None) -> Target:
    """The target of a cataloged GPU in this environment. Raises what `parse_target` does."""
    return _make_gpu_target(entry, memory, os.environ)


def find_reported_target(
    kind: str,
    name: str,
    memory: str | None,
    reported_bytes: int | None = None,
    variables: Mapping[str, str] | None = None,
) -> Target | None:
    """The target of torch type `kind` whose driver reports `name`; None for an uncataloged GPU.

    `reported_bytes` is its memory as torch or the system tells it, None where nobody did: a CPU then has that of this
    machine. Of a GPU that comes with several amounts it tells which. `variables` are those of the environment that
    asks for settings of the allocator, this process's unless given. Raises what `parse_target` does.
    """
    if is_cpu(kind):
        return _make_cpu_target(reported_bytes, memory)
    entry = find_entry_with_memory(name, reported_bytes)
    return None if entry is None else _make_gpu_target(entry, memory, os.environ if variables is None else variables)


def find_local_target(kind: str, name: str) -> Target | None:
    """This machine's target, with the memory that its driver reports. Otherwise as `find_reported_target`."""
    return find_reported_target(kind, name, None, None if is_cpu(kind) else read_gpu_memory(name))


def find_run_target(kind: str, environment: Environment | None, memory: str | None) -> Target | None:
    """The target of a recorded run, by its environment. Otherwise as `find_reported_target`."""
    if environment is None:
        return find_reported_target(kind, "", memory)
    if not is_cpu(kind):
        told_bytes = environment.device_memory_bytes
        return find_reported_target(kind, environment.device_name, memory, told_bytes, environment.variables)
    told = (environment.memory_total_bytes, environment.container_memory_limit_bytes)
    return _make_cpu_target(min((size for size in told if size is not None), default=None), memory)


def explain_unknown_gpu(device_name: str) -> str:
    """The message for an uncataloged GPU."""
    return (
        f"{device_name or 'the GPU'} is unknown and cannot be planned: choose a device of perfkit devices with "
        "perfkit plan --gpu"
    )


def _make_cpu_target(total_bytes: int | None, memory: str | None) -> Target:
    capacity = get_memory_bytes() if total_bytes is None else total_bytes
    limit = None if memory is None else _parse_limit(memory, capacity, "the machine")
    return CPU._replace(capacity_bytes=capacity, limit_bytes=limit)


def _make_gpu_target(entry: CatalogEntry, memory: str | None, variables: Mapping[str, str]) -> Target:
    if entry.memory_gb is None:
        raise UsageError(f"{entry.id} comes with several memory sizes: choose one, such as --gpu {entry.id}-16g")
    capacity = int(entry.memory_gb * 2**30)  # cards of 80 GB have 80 GiB minus the driver's reserve
    limit = capacity if memory is None else _parse_limit(memory, capacity, entry.id)
    settings = parse_allocator_settings(variables)
    return Target(
        device=entry.id,
        kind="cuda",
        entry=entry,
        capacity_bytes=capacity,
        limit_bytes=limit,
        expandable_segments=settings.get(_EXPANDABLE_SEGMENTS) == "True",
        other_settings=tuple(name for name in settings if name != _EXPANDABLE_SEGMENTS),
    )


def _parse_limit(memory: str, capacity: int, owner: str) -> int:
    share = memory.strip().endswith("%") or memory.strip().replace(".", "", 1).isdecimal()
    try:
        limit = parse_amount(memory, "1") * capacity if share else parse_amount(memory, "bytes")
    except UsageError as error:
        raise UsageError(f"--memory: {error}, or a share of the device such as 0.9") from None
    if not 0 < limit <= capacity:
        raise UsageError(f"--memory {memory} is {format_bytes(limit)}, and {owner} has {format_bytes(capacity)}")
    return int(limit)


def parse_allocator_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of torch's CUDA allocator by name, as written."""
    written = next((environment[name] for name in _ALLOCATOR_VARIABLES if name in environment), "")
    return {name: value.strip() for name, value in _ALLOCATOR_SETTING.findall(written)}
