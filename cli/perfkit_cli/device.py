"""The device that was asked for, as it is on this machine."""

from typing import NamedTuple

from perfkit.errors import UsageError

DEVICES = ("auto", "cpu", "cuda")


class Device(NamedTuple):
    """`visible` is their number; `name` is what the catalogue of peaks knows it by."""

    kind: str
    name: str
    visible: int


def find_device(wanted: str) -> Device:
    """`auto` is the GPU that is there, or the CPU. Asking for a GPU where there is none is a `UsageError`."""
    import torch

    from perfkit.devices.machine import cpu_model

    if torch.cuda.is_available() and wanted != "cpu":
        return Device("cuda", torch.cuda.get_device_name(0), torch.cuda.device_count())
    if wanted == "cuda":
        why = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no CUDA device"
        raise UsageError(f"--device cuda: {why}; use --device cpu, or see what nvidia-smi and CUDA_VISIBLE_DEVICES say")
    return Device("cpu", cpu_model(), 1)
