"""Resolves the requested device on this machine."""

from typing import NamedTuple

from perfkit.core.errors import UsageError
from perfkit.devices.accelerator import CPU, CUDA, XPU, find_built_accelerator, get_accelerator, is_cpu

AUTO = "auto"
CALIBRATED = (CPU.type, CUDA.type)
DEVICES = (AUTO, CPU.type, CUDA.type, XPU.type)


class ChosenDevice(NamedTuple):
    """`visible` is the number of devices; `name` is the name in the catalog of peaks, empty if unknown."""

    kind: str
    name: str
    visible: int


def find_device(wanted: str, *, here: bool = True) -> ChosenDevice:
    """Resolve `auto` to the GPU if available, else the CPU. Requesting a missing GPU is a `UsageError`, unless ranks do
    not run `here`, on this machine with this process's devices: then there may be one where they run.

    This process never uses a GPU: only its children are measured.
    """
    from perfkit.devices.machine.machine import read_cpu_model
    from perfkit.devices.machine.visible_gpus import list_visible_gpus

    built = None if is_cpu(wanted) else find_built_accelerator()
    if built is not None and wanted in (AUTO, built.type) and (gpus := list_visible_gpus()):
        return ChosenDevice(built.type, gpus[0], len(gpus))
    if is_cpu(wanted) or wanted == AUTO:
        return ChosenDevice(CPU.type, read_cpu_model(), 1)
    if not here:
        return ChosenDevice(wanted, "", 0)
    asked = built if built is not None and built.type == wanted else get_accelerator(wanted)
    why = f"torch finds no {asked.name} device" if asked is built else f"this torch is built without {asked.name}"
    checks = " and ".join((asked.tool, *asked.visibility))
    raise UsageError(f"--device {wanted}: {why}; use --device cpu, or check {checks}")
