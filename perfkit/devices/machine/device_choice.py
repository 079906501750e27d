"""Resolves the requested device on this machine."""

from typing import NamedTuple

from perfkit.core.errors import UsageError

DEVICES = ("auto", "cpu", "cuda")


class ChosenDevice(NamedTuple):
    """`visible` is the number of devices; `name` is the name in the catalog of peaks, empty if unknown."""

    kind: str
    name: str
    visible: int


def find_device(wanted: str, *, here: bool = True) -> ChosenDevice:
    """Resolve `auto` to the GPU if available, else the CPU. Requesting a missing GPU is a `UsageError`, unless ranks do
    not run `here`, on this machine with this process's devices: then there may be one where they run.

    This process never uses CUDA: only its children are measured.
    """
    from perfkit.devices.machine.machine import read_cpu_model
    from perfkit.devices.machine.visible_gpus import list_visible_gpus

    gpus = () if wanted == "cpu" else list_visible_gpus()
    if gpus:
        return ChosenDevice("cuda", gpus[0], len(gpus))
    if wanted == "cuda" and not here:
        return ChosenDevice("cuda", "", 0)
    if wanted == "cuda":
        from torch import version

        built = version.cuda or version.hip
        why = "torch finds no CUDA device" if built else "this torch is built without CUDA"
        raise UsageError(f"--device cuda: {why}; use --device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES")
    return ChosenDevice("cpu", read_cpu_model(), 1)
