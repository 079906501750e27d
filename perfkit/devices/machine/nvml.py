"""GPUs as NVIDIA's driver lists them: NVML needs neither torch nor a CUDA context.

Read against NVML's documentation and not yet tried on hardware, least of all in MIG mode.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pynvml

GPU, MIG = "GPU-", "MIG-"


class Gpu(NamedTuple):
    """A GPU of the machine. `partitioned`: it is in MIG mode, in which CUDA shows its instances in its place."""

    name: str
    uuid: str
    partitioned: bool


@contextmanager
def open_nvml() -> Iterator[None]:
    """NVML can be asked while the body runs; an `NVMLError` where there is no NVIDIA driver."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def list_gpus() -> tuple[Gpu, ...]:
    """All GPUs by NVML's index, which is the order of their PCI addresses; an `NVMLError` where one cannot be asked."""
    handles = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount()))
    return tuple(
        Gpu(
            decode_text(pynvml.nvmlDeviceGetName(handle)),
            decode_text(pynvml.nvmlDeviceGetUUID(handle)),
            _is_partitioned(handle),
        )
        for handle in handles
    )


def read_gpu_memory(name: str) -> int | None:
    """The memory of the GPUs of this name in bytes; None if it differs, or without such GPUs or an NVIDIA driver."""
    try:
        with open_nvml():
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            alike = [handle for handle in handles if decode_text(pynvml.nvmlDeviceGetName(handle)) == name]
            sizes = {int(pynvml.nvmlDeviceGetMemoryInfo(handle).total) for handle in alike}
    except pynvml.NVMLError:
        return None
    return sizes.pop() if len(sizes) == 1 else None


def find_handle(uuid: str) -> Any:
    """The handle of the device to which CUDA gives this UUID, a GPU or a MIG instance; an `NVMLError` where none is it.

    torch prints UUIDs without the prefix that NVML wants. Of an instance CUDA tells its own UUID (`cuDeviceGetUuid_v2`,
    since 11.4) or that of the GPU around it (before), whose memory and processes are not those of the instance: then it
    is the instance that CUDA_VISIBLE_DEVICES names on this GPU.
    """
    if uuid.startswith((GPU, MIG)):
        return pynvml.nvmlDeviceGetHandleByUUID(uuid)
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(GPU + uuid)
    except pynvml.NVMLError:
        return pynvml.nvmlDeviceGetHandleByUUID(MIG + uuid)
    return _find_visible_instance(GPU + uuid) if _is_partitioned(handle) else handle


def decode_text(value: str | bytes) -> str:
    """NVML's Python binding returns bytes in older versions."""
    return value.decode() if isinstance(value, bytes) else value


def _find_visible_instance(gpu_uuid: str) -> Any:
    """The instance on a GPU that CUDA_VISIBLE_DEVICES names, of which CUDA shows one for each GPU."""
    for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","):
        if name.startswith(MIG):
            handle = pynvml.nvmlDeviceGetHandleByUUID(name)
            around = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            if decode_text(pynvml.nvmlDeviceGetUUID(around)) == gpu_uuid:
                return handle
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)


def _is_partitioned(handle: Any) -> bool:
    """True if a GPU is in MIG mode."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)
