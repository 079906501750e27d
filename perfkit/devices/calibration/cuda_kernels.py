"""The kernels that bound a CUDA (or ROCm) device: matrix products, copies, triads, L2, and the link to the host.

L2 is flushed before every window (the L2 triad then runs a hundred times in one), the device is heated first, and each
figure is the median of a repeat's windows, best over repeats and shapes. What a device cannot do is left out with the
reason. Not yet tried on hardware.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.note import Note, list_texts, make_note
from perfkit.devices.calibration import cuda_bandwidths, cuda_products
from perfkit.devices.calibration.gpu_usage import GpuUse, find_gpu_use
from perfkit.devices.calibration.kernel_timing import CalibrationEffort, CalibrationKernel, Call, Progress, Timer
from perfkit.devices.catalog.catalog import find_entry
from perfkit.devices.ceilings.ceiling import Ceiling, Confidence
from perfkit.devices.machine.fp32_precision import set_matmul_precision

SHORT = CalibrationEffort(repeats=5, windows=20, budget_s=0.1, quantile=0.5)
FULL = CalibrationEffort(repeats=7, windows=50, budget_s=0.5, quantile=0.5)
WARM_UP_S = {"short": 3.0, "full": 30.0}

SHORT_SIZES = (4096, 8192)
FULL_SIZES = (2048, 4096, 6144, 8192, 12288, 16384)
FLUSH_BYTES = 2**26


@dataclass(frozen=True)
class CalibratedGpu:
    """The device being calibrated. `units` are its SMs or compute units, `use` is what else uses it."""

    name: str
    capability: tuple[int, int]
    units: int
    rocm: bool
    l2_bytes: int
    free_bytes: int
    use: GpuUse


@contextmanager
def open_device(name: str = "") -> Iterator[CalibratedGpu]:
    """Open the CUDA device with this name, or the current one; raise `UnavailableError` if there is none.

    While open, it is torch's current device. Afterwards torch's cached memory is released, and the precision of fp32
    matmuls restored.
    """
    if not torch.cuda.is_available():
        raise UnavailableError("no CUDA device: torch.cuda.is_available() is False on this machine")
    index = _find_device_index(name)
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        with torch.cuda.device(index):
            yield _describe_device(index)
    finally:
        set_matmul_precision(before)
        with torch.cuda.device(index):
            torch.cuda.empty_cache()


def _find_device_index(name: str) -> int:
    """The first device with this name. A single device is the one that is meant, whoever named it."""
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if not name or len(names) == 1:
        return torch.cuda.current_device()
    if name not in names:
        raise UnavailableError(f"no CUDA device is named {name!r}; expected one of {', '.join(sorted(set(names)))}")
    return names.index(name)


def _describe_device(index: int) -> CalibratedGpu:
    properties = torch.cuda.get_device_properties(index)
    free_bytes, _ = torch.cuda.mem_get_info(index)  # makes a context, without which NVML does not list this process
    return CalibratedGpu(
        name=properties.name,
        capability=(properties.major, properties.minor),
        units=properties.multi_processor_count,
        rocm=torch.version.hip is not None,
        l2_bytes=int(properties.L2_cache_size),
        free_bytes=free_bytes,
        use=find_gpu_use(str(properties.uuid)),
    )


def choose_kernels(
    device: CalibratedGpu, timer: Timer, *, short: bool
) -> tuple[list[CalibrationKernel], CalibrationKernel, list[Note]]:
    """Choose the kernels to measure, the canary, and notes on omissions.

    No matmul takes longer than the effort's smallest number of windows allows.
    """
    effort = choose_effort(short=short)
    limits = cuda_products.ProductLimits(effort.budget_s / effort.min_windows, device.free_bytes)
    products = cuda_products.list_products(device.capability, rocm=device.rocm)
    sizes = SHORT_SIZES if short else FULL_SIZES
    chosen = cuda_products.choose_kernels(products, find_entry(device.name, device.units), sizes, limits, timer)
    if chosen.canary is None:
        raise UnavailableError("no matmul works on this device: " + "; ".join(list_texts(chosen.notes)))
    release_memory()
    bandwidths, how_read = cuda_bandwidths.build_kernels(device.free_bytes, device.l2_bytes)
    return [*chosen.kernels, *bandwidths], chosen.canary, [*_list_use_notes(device.use), *chosen.notes, *how_read]


def choose_effort(*, short: bool) -> CalibrationEffort:
    """Choose the effort of a short or a full calibration."""
    return SHORT if short else FULL


def make_event_timer(device: CalibratedGpu) -> Timer:
    """Times a call between two events on the current stream, after flushing L2."""
    flush = torch.empty(max(4 * device.l2_bytes, FLUSH_BYTES), dtype=torch.int8, device="cuda")

    def timed(call: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return timed


def warm_up(device: CalibratedGpu, canary: CalibrationKernel, *, short: bool, progress: Progress) -> None:
    """Keep the device busy with the canary until its clocks and temperature are those of a long job."""
    seconds = WARM_UP_S["short" if short else "full"]
    progress(f"warming up {device.name} for {seconds:.0f} s")
    window = canary.prepare()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            window.call()
        torch.cuda.synchronize()


def release_memory() -> None:
    """Release torch's cached memory, so that the next buffers get other addresses and the largest ones fit."""
    torch.cuda.empty_cache()


def reduce_confidence(ceiling: Ceiling, device: CalibratedGpu) -> Ceiling:
    """The ceiling with low confidence, and as disturbed, where something else was using the device."""
    busy = device.use.busy
    return msgspec.structs.replace(ceiling, confidence=Confidence.LOW, disturbance=busy) if busy else ceiling


def _list_use_notes(use: GpuUse) -> list[Note]:
    notes = []
    if use.busy:
        text = f"the device was not idle: {use.busy}; confidence is low"
        notes.append(make_note("ceilings.busy_device", text))
    if use.unknown:
        text = f"unknown whether others used the device: {use.unknown}"
        notes.append(make_note("ceilings.unknown_load", text))
    return notes
