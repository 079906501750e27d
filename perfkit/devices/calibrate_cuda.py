"""The kernels that bound a CUDA (or ROCm) device: matrix products, copies, triads, L2, and the link to the host.

Operands are random, since products of zeros draw less power and run faster. L2 is flushed before every window
(the L2 triad then runs a hundred times in one), the device is heated first, and each figure is the median of a
repeat's windows, best over repeats and shapes. Not yet tried on hardware.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import pynvml
import torch

from perfkit.devices.ceiling import Ceiling, Confidence, Level
from perfkit.devices.measure import Call, Kernel, Plan, Progress, Timer, Window
from perfkit.errors import UnavailableError

SHORT = Plan(repeats=5, windows=20, budget_s=0.1, quantile=0.5)
FULL = Plan(repeats=7, windows=50, budget_s=0.5, quantile=0.5)
WARM_UP_S = {"short": 3.0, "full": 30.0}

SHORT_SIZES = (4096, 8192)
FULL_SIZES = (2048, 4096, 6144, 8192, 12288, 16384)
CANARY_SIZE = 4096
STREAM_BYTES = 2**30  # of one array, far beyond any L2
LINK_BYTES = 256 * 2**20
L2_CALLS = 100
BUSY = 0.05


@dataclass(frozen=True)
class Device:
    """The device being calibrated.

    `busy` says what else uses it: empty where it is idle, None where that is not known.
    """

    name: str
    capability: tuple[int, int]
    rocm: bool
    l2_bytes: int
    free_bytes: int
    flush: torch.Tensor
    busy: str | None


def open_device() -> Device:
    """The current CUDA device; an `UnavailableError` where there is none."""
    if not torch.cuda.is_available():
        raise UnavailableError("no CUDA device: torch.cuda.is_available() is False on this machine")
    index = torch.cuda.current_device()
    properties = torch.cuda.get_device_properties(index)
    busy = _busy(f"GPU-{properties.uuid}")
    l2_bytes = int(properties.L2_cache_size)
    return Device(
        name=properties.name,
        capability=(properties.major, properties.minor),
        rocm=torch.version.hip is not None,
        l2_bytes=l2_bytes,
        free_bytes=torch.cuda.mem_get_info(index)[0],
        flush=torch.empty(max(4 * l2_bytes, 2**26), dtype=torch.int8, device="cuda"),
        busy=busy,
    )


def kernels(device: Device, *, short: bool) -> tuple[list[Kernel], dict[int | None, Kernel], list[str]]:
    """The kernels to measure, the canary, and notes on what is left out and why."""
    notes = []
    if device.busy is None:
        notes.append("whether the device was idle is not known: NVML does not say")
    elif device.busy:
        notes.append(f"the device was not idle: {device.busy}; confidence is low")
    notes.append("bandwidths count each byte read and each byte written")
    sizes = [size for size in (SHORT_SIZES if short else FULL_SIZES) if 16 * size * size < device.free_bytes // 4]
    chosen: list[Kernel] = []
    for product in _products(device):
        if product.why_not:
            notes.append(f"{product.dtype} products are not measured: {product.why_not}")
            continue
        chosen += [_product_kernel(product, size) for size in sizes]
    elements = min(STREAM_BYTES, device.free_bytes // 8) // 4
    chosen += [_copy(elements), _triad(Level.MEMORY, elements)]
    if device.l2_bytes:
        chosen.append(_triad(Level.L2, device.l2_bytes // 2 // 12, calls=L2_CALLS))
        notes.append("L2 is measured with triads replayed from a graph; launch gaps between them make it a lower bound")
    chosen += [_host_link(to_device=True), _host_link(to_device=False)]
    canary = next(product for product in _products(device) if product.dtype == "fp16")
    return chosen, {None: _product_kernel(canary, CANARY_SIZE)}, notes


def event_timer(device: Device) -> Timer:
    """Times a call between two events on the current stream, after flushing L2."""

    def timed(call: Call) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        device.flush.zero_()
        start.record()
        call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    return timed


def warm_up(device: Device, *, short: bool, progress: Progress) -> None:
    """Keep the device busy until its clocks and temperature are those of a long job."""
    seconds = WARM_UP_S["short" if short else "full"]
    progress(f"heating {device.name} for {seconds:.0f} s")
    left, right = (torch.randn(4096, 4096, device="cuda", dtype=torch.float16) for _ in range(2))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(50):
            torch.mm(left, right)
        torch.cuda.synchronize()


def downgraded(ceiling: Ceiling, device: Device) -> Ceiling:
    """The ceiling with low confidence where something else was using the device."""
    return msgspec.structs.replace(ceiling, confidence=Confidence.LOW) if device.busy else ceiling


@dataclass(frozen=True)
class _Product:
    dtype: str
    level: Level
    make: Callable[[int], Call]
    why_not: str = ""


def _products(device: Device) -> list[_Product]:
    """A product per dtype, and the unit it runs on.

    NVIDIA GPUs run fp32 products on the vector units unless TF32 is allowed, and fp64 ones on matrix units
    only in the data-centre parts (8.0, 9.0, 10.0). AMD Instinct GPUs have matrix units for both.
    """
    fp64_matrix = device.rocm or device.capability in ((8, 0), (9, 0), (10, 0))
    no_bf16 = "" if device.rocm or device.capability >= (8, 0) else "no bf16 matrix units before compute capability 8.0"
    no_tf32 = "no TF32 mode in torch for ROCm" if device.rocm else no_bf16.replace("bf16", "TF32")
    no_int8 = (
        "left out on ROCm"
        if device.rocm
        else ("" if device.capability >= (7, 5) else "no int8 matrix units before 7.5")
    )
    no_fp8 = (
        "left out on ROCm" if device.rocm else ("" if device.capability >= (8, 9) else "no fp8 matrix units before 8.9")
    )
    return [
        _Product("fp16", Level.MATRIX, lambda size: _mm(size, torch.float16)),
        _Product("bf16", Level.MATRIX, lambda size: _mm(size, torch.bfloat16), no_bf16),
        _Product("tf32", Level.MATRIX, lambda size: _mm(size, torch.float32, "high"), no_tf32),
        _Product("fp32", Level.MATRIX if device.rocm else Level.VECTOR, lambda size: _mm(size, torch.float32)),
        _Product("fp64", Level.MATRIX if fp64_matrix else Level.VECTOR, lambda size: _mm(size, torch.float64)),
        _Product("int8", Level.MATRIX, _int8_mm, no_int8),
        _Product("fp8", Level.MATRIX, _fp8_mm, no_fp8),
    ]


def _mm(size: int, dtype: torch.dtype, precision: str = "highest") -> Call:
    torch.set_float32_matmul_precision(precision)
    left, right = (torch.randn(size, size, device="cuda", dtype=dtype) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def _int8_mm(size: int) -> Call:
    left, right = (torch.randint(-128, 128, (size, size), device="cuda", dtype=torch.int8) for _ in range(2))
    return lambda: torch._int_mm(left, right.t())


def _fp8_mm(size: int) -> Call:
    left, right = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    # The second operand must be column-major.
    return lambda: torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _product_kernel(product: _Product, size: int) -> Kernel:
    return Kernel(
        level=product.level,
        dtype=product.dtype,
        threads=None,
        label=f"{product.dtype} product n={size}",
        unit="FLOP/s",
        prepare=lambda: Window(product.make(size), 2.0 * size**3),
    )


def _copy(elements: int) -> Kernel:
    def prepare() -> Window:
        source = torch.randn(elements, device="cuda")
        target = torch.empty_like(source)
        return Window(lambda: target.copy_(source), 8.0 * elements)

    label = f"copy of {4 * elements / 2**20:.0f} MiB"
    return Kernel(level=Level.MEMORY, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare)


def _triad(level: Level, elements: int, calls: int = 1) -> Kernel:
    def prepare() -> Window:
        a, b, c = (torch.randn(elements, device="cuda") for _ in range(3))
        if calls == 1:
            return Window(lambda: torch.add(b, c, alpha=0.5, out=a), 12.0 * elements)
        torch.add(b, c, alpha=0.5, out=a)  # loads the kernel before the capture
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                torch.add(b, c, alpha=0.5, out=a)

        def replay(*_: torch.Tensor) -> None:  # the graph keeps addresses, not tensors
            graph.replay()

        return Window(functools.partial(replay, a, b, c), 12.0 * elements * calls)

    label = f"triad of {12 * elements / 2**20:.0f} MiB in {level}"
    return Kernel(level=level, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare)


def _host_link(*, to_device: bool) -> Kernel:
    """A pinned transfer one way. The faster direction becomes the ceiling, since it bounds both."""

    def prepare() -> Window:
        host = torch.randint(0, 127, (LINK_BYTES,), dtype=torch.int8).pin_memory()
        device = torch.empty(LINK_BYTES, dtype=torch.int8, device="cuda")
        target, source = (device, host) if to_device else (host, device)
        return Window(lambda: target.copy_(source, non_blocking=True), float(LINK_BYTES))

    label = f"pinned transfer {'to' if to_device else 'from'} the device, {LINK_BYTES // 2**20} MiB"
    return Kernel(level=Level.HOST_LINK, dtype=None, threads=None, label=label, unit="B/s", prepare=prepare)


def _busy(uuid: str) -> str | None:
    """What else uses the device, from NVML; empty where it is idle, None where NVML does not say."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        utilisation = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        others = len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
    if utilisation > BUSY:
        return f"its utilisation was {utilisation:.0%} before anything was started"
    # Our own process may or may not be listed, depending on the container.
    return f"{others} processes have it open" if others > 1 else ""
