"""The GPUs that torch will see in a process started from here, found without CUDA in this one.

`torch.cuda` would initialize the driver and leave contexts, which take memory that the measured processes are then
without, fail on GPUs in exclusive mode, and do not survive a fork. So NVML is asked; and where it alone cannot tell
what CUDA will show (no NVML as on ROCm and XPU, MIG instances, different GPUs in CUDA's own order, a driver older than
torch's CUDA) torch is asked in a process that ends: `python -m perfkit.devices.machine.visible_gpus`. Not yet tried on
hardware."""

import ctypes
import json
import os
import subprocess
import sys
from itertools import takewhile

import pynvml

from perfkit.core.errors import PerfkitError
from perfkit.devices.accelerator import find_built_accelerator
from perfkit.devices.machine import nvml
from perfkit.devices.machine.mig import list_visible_instances


def list_visible_gpus() -> tuple[str, ...]:
    """The GPUs' names by CUDA's index; none where torch is missing, built for CPUs, or finds no GPU. In MIG mode the
    instances' names: CUDA shows a process one of them, and each rank is given its own.

    A `PerfkitError` where torch's own answer was needed and its process failed.
    """
    built = find_built_accelerator()
    if built is None:
        return ()
    if not built.has_nvml:
        return _list_by_torch()
    if not _has_cuda_driver():
        return ()
    if instances := list_visible_instances():
        return tuple(instance.name for instance in instances)
    from torch import version

    assert version.cuda is not None  # what has NVML is built for CUDA
    names = _list_by_nvml(int(version.cuda.partition(".")[0]))
    return _list_by_torch() if names is None else names


def explain_missing_gpus(ranks: int, visible: int, *, least: bool = False) -> str:
    """Explain why this number of ranks cannot run; empty if every rank has its own GPU."""
    return f"needs {'at least ' if least else ''}{ranks} GPUs, {visible} visible" if ranks > visible else ""


def list_visible_numbers() -> tuple[int, ...]:
    """List NVML's numbers of the visible GPUs, in CUDA's order; none if NVML does not report them."""
    from torch import version

    uuids = None if version.cuda is None else _read_from_nvml(int(version.cuda.partition(".")[0]))
    return () if uuids is None else tuple(uuids)


def _list_by_nvml(cuda: int) -> tuple[str, ...] | None:
    """The names as far as NVML decides; None where only CUDA itself (of this major version) knows."""
    uuids = _read_from_nvml(cuda)
    return None if uuids is None else tuple(uuids.values())


def _read_from_nvml(cuda: int) -> dict[int, str] | None:
    """The same by NVML's numbers, in CUDA's order."""
    try:
        with nvml.open_nvml():
            gpus = nvml.list_gpus()
            driver = pynvml.nvmlSystemGetCudaDriverVersion_v2() // 1000
    except pynvml.NVMLError:
        return None
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if driver < cuda or any(gpu.partitioned for gpu in gpus) or chosen.startswith(nvml.MIG):
        return None
    if chosen.startswith(nvml.GPU):
        indices = _select_by_uuid([gpu.uuid for gpu in gpus])
    elif len({gpu.name for gpu in gpus}) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return None  # CUDA numbers the fastest first, and does not say which that is
    else:
        indices = _select_by_number(len(gpus))
    return {index: gpus[index].name for index in indices}


def _select_by_number(count: int) -> list[int]:
    """Select the GPUs numbered in CUDA_VISIBLE_DEVICES: those before the first invalid one, as CUDA does."""
    import torch

    numbers = (int(number) for number in torch.cuda._parse_visible_devices())
    return list(takewhile(lambda number: number < count, numbers))


def _select_by_uuid(uuids: list[str]) -> list[int]:
    """The GPUs whose UUIDs, or beginnings of UUIDs, are in CUDA_VISIBLE_DEVICES."""
    import torch

    names = [str(name) for name in torch.cuda._parse_visible_devices()]
    return torch.cuda._transform_uuid_to_ordinals(names, uuids)


def _has_cuda_driver() -> bool:
    """True if a CUDA driver is installed; loading its library initializes nothing."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _list_by_torch() -> tuple[str, ...]:
    command = [sys.executable, "-m", "perfkit.devices.machine.visible_gpus"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        complaints = answer.stderr.strip().splitlines()
        raise PerfkitError(
            f"torch could not list the GPUs (exit code {answer.returncode}): {complaints[-1] if complaints else ''}; "
            "use --device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )
    names: list[str] = json.loads(answer.stdout)
    return tuple(names)


def main() -> None:
    """Print the names of the GPUs that torch sees, as JSON."""
    built, names = find_built_accelerator(), []
    if built is not None and built.runtime.is_available():
        names = [built.runtime.get_device_name(index) for index in range(built.runtime.device_count())]
    sys.stdout.write(json.dumps(names))


if __name__ == "__main__":
    main()
