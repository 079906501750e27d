"""Balances a process's memory outside the allocator, from its rank's measurements.

On a GPU: peak + reserved but free + CUDA context + NCCL + kernels and libraries + profiler + residual = what the driver
counts for the process, and this + other processes + what the driver reserves for itself = what is not free on the
device. In main memory: peak + interpreter and libraries + code and files mapped since + batches + residual = the
process's largest resident set over the memory pass. The residual is what is left, with its sign: it is negative where
pages were allocated and never touched, which take no memory.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from perfkit.analysis.memory.non_allocator_memory import RESERVED_FREE, NonAllocatorMemory
from perfkit.analysis.model.memory_model import MemoryShare
from perfkit.core.record.memory import DeviceMemoryState, ProcessMemory
from perfkit.core.record.quantity import Measurement, Quantity, get_value
from perfkit.core.record.rank_record import RankRecord
from perfkit.devices.accelerator import has_own_memory

CONTEXT = "CUDA context"
NCCL = "NCCL"
KERNELS = "kernels and libraries"
PROFILER = "profiler"
REST_OF_DEVICE = "context, libraries and other processes"
OTHERS = "other processes"
RESERVED_BY_DRIVER = "reserved by the driver"
# For older drivers, which count reserved memory as used.
OTHERS_AND_DRIVER = "other processes and what the driver reserves"
LIBRARIES = "interpreter and libraries"
MAPPED = "code and files mapped since"
BATCHES = "batches of the harness"
RESIDUAL = "residual"


def build_process_balance(record: RankRecord) -> Callable[[int], NonAllocatorMemory]:
    """Build a function from the allocator's peak to the memory outside the allocator.

    A part that was not measured is left out, and is then within the residual. Where the whole was not measured there
    is no residual and `process_bytes` is None.
    """
    measured = record.process_memory
    if record.environment is not None and has_own_memory(record.environment.device):
        return lambda peak: _balance_device_memory(measured, peak)
    return lambda peak: _balance_main_memory(measured, peak)


def _balance_main_memory(measured: ProcessMemory, peak: int) -> NonAllocatorMemory:
    parts = (
        (LIBRARIES, _get_bytes(measured.before_model)),
        (MAPPED, _subtract_quantities(measured.mapped_after, measured.mapped_before_model)),
        (BATCHES, _get_bytes(measured.batches)),
    )
    return _compute_balance(peak, parts, measured.peak)


def _balance_device_memory(measured: ProcessMemory, peak: int) -> NonAllocatorMemory:
    end = measured.at_end
    if end is None:
        return NonAllocatorMemory(parts=())
    reserved_free = (RESERVED_FREE, end.reserved - peak)
    device, driver = _get_bytes(end.device), _get_bytes(end.driver)
    if not isinstance(end.process, Measurement):
        rest = (REST_OF_DEVICE, None if device is None else device - end.reserved)
        return NonAllocatorMemory(parts=_make_shares((reserved_free, rest, (RESERVED_BY_DRIVER, driver))))
    parts = (
        reserved_free,
        (CONTEXT, _get_non_allocator_bytes(measured.at_context)),
        (NCCL, _compute_non_allocator_growth(measured.at_context, measured.at_group)),
        (KERNELS, _compute_non_allocator_growth(measured.at_group or measured.at_context, measured.at_warm)),
        (PROFILER, _compute_non_allocator_growth(measured.at_warm, measured.at_memory)),
    )
    balance = _compute_balance(peak, parts, end.process)
    if device is None or balance.process_bytes is None:
        return balance
    others = (OTHERS_AND_DRIVER if driver is None else OTHERS, device - balance.process_bytes)
    return replace(
        balance, device_parts=_make_shares((others, (RESERVED_BY_DRIVER, driver))), device_bytes=device + (driver or 0)
    )


def _compute_balance(peak: int, parts: Iterable[tuple[str, int | None]], whole: Quantity) -> NonAllocatorMemory:
    """The parts, and the residual that makes them and the peak sum to the whole."""
    shares = _make_shares(parts)
    if not isinstance(whole, Measurement):
        return NonAllocatorMemory(parts=shares)
    process = int(whole.value)
    residual = process - peak - sum(share.bytes for share in shares)
    return NonAllocatorMemory(
        parts=(*shares, MemoryShare(category=RESIDUAL, bytes=residual)),
        process_bytes=process,
        process_source=whole.source,
    )


def _make_shares(parts: Iterable[tuple[str, int | None]]) -> tuple[MemoryShare, ...]:
    return tuple(MemoryShare(category=name, bytes=size) for name, size in parts if size is not None)


def _get_non_allocator_bytes(moment: DeviceMemoryState | None) -> int | None:
    """The device memory of the process minus what its allocator reserved."""
    process = None if moment is None else _get_bytes(moment.process)
    return None if moment is None or process is None else process - moment.reserved


def _compute_non_allocator_growth(before: DeviceMemoryState | None, after: DeviceMemoryState | None) -> int | None:
    start, end = _get_non_allocator_bytes(before), _get_non_allocator_bytes(after)
    return None if start is None or end is None else end - start


def compute_context_bytes(measured: ProcessMemory) -> int | None:
    """GPU memory of a process, without allocator and NCCL, after warm-up; None if not measured.

    That is the context with the kernels and libraries that were loaded by then. Older records have no such moment, and
    what is taken there, of the end of the memory pass, has the profiler's buffers in it.
    """
    context = _get_non_allocator_bytes(measured.at_warm or measured.at_end)
    nccl = 0 if measured.at_group is None else _compute_non_allocator_growth(measured.at_context, measured.at_group)
    return None if context is None or nccl is None else context - nccl


def _subtract_quantities(after: Quantity, before: Quantity) -> int | None:
    end, start = _get_bytes(after), _get_bytes(before)
    return None if end is None or start is None else end - start


def _get_bytes(quantity: Quantity) -> int | None:
    value = get_value(quantity)
    return None if value is None else int(value)
