"""MIG instances: a process can use one of them alone, so that each rank gets its own by CUDA_VISIBLE_DEVICES.

"CUDA can only enumerate a single compute instance" (NVIDIA Multi-Instance GPU User Guide, "CUDA Device Enumeration"):
of several in CUDA_VISIBLE_DEVICES a process sees the first. Written after that guide and NVML's documentation, and not
yet tried on hardware.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

import pynvml

from perfkit.devices.machine import nvml

VISIBLE = "CUDA_VISIBLE_DEVICES"


class MigInstance(NamedTuple):
    """A MIG instance: `name` is that of the GPU with the profile (`NVIDIA A100-SXM4-40GB MIG 1g.5gb`)."""

    name: str
    uuid: str


def list_visible_instances() -> tuple[MigInstance, ...]:
    """The instances that processes started from here can use, one each; none where a whole GPU can be used."""
    chosen = [name.strip() for name in os.environ.get(VISIBLE, "").split(",")]
    try:
        with nvml.open_nvml():
            if any(name.startswith(nvml.MIG) for name in chosen):
                handles = [pynvml.nvmlDeviceGetHandleByUUID(name) for name in chosen if name.startswith(nvml.MIG)]
                return tuple(map(_read_instance, handles))
            gpus = nvml.list_gpus()
            numbers = range(len(gpus)) if VISIBLE not in os.environ else [*_parse_numbers(chosen, len(gpus))]
            if not numbers or not all(gpus[number].partitioned for number in numbers):
                return ()
            return tuple(instance for number in numbers for instance in _list_instances(number))
    except pynvml.NVMLError:
        return ()


def build_instance_variables(local_rank: int) -> dict[str, str]:
    """Variables that give a rank its own MIG instance; empty without MIG, or if the launcher has chosen one.

    With fewer instances than ranks they are given in turn: ranks compare them once they have begun.
    """
    instances = list_visible_instances()
    return {VISIBLE: instances[local_rank % len(instances)].uuid} if len(instances) > 1 else {}


def _parse_numbers(chosen: list[str], count: int) -> Iterator[int]:
    """The GPUs of these numbers, before the first invalid one."""
    for number in chosen:
        if not number.isdecimal() or int(number) >= count:
            return
        yield int(number)


def _list_instances(number: int) -> Iterator[MigInstance]:
    gpu = pynvml.nvmlDeviceGetHandleByIndex(number)
    for place in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(gpu)):
        try:
            handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, place)
        except pynvml.NVMLError_NotFound:  # no instance at this place
            continue
        yield _read_instance(handle)


def _read_instance(handle: object) -> MigInstance:
    return MigInstance(
        nvml.decode_text(pynvml.nvmlDeviceGetName(handle)), nvml.decode_text(pynvml.nvmlDeviceGetUUID(handle))
    )
