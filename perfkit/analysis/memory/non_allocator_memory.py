"""Memory of the process on a device outside the allocator."""

from dataclasses import dataclass

from perfkit.analysis.model.memory_model import MemoryShare

RESERVED_FREE = "reserved but free"


@dataclass(frozen=True)
class NonAllocatorMemory:
    """Bytes outside of the allocated ones; the fields are those of `MemoryAccount`.

    Attributes:
        parts: reserved but free, libraries, what is left unexplained; with the peak they sum to `process_bytes`.
        process_bytes: what the system sees of the process, None where nobody measured it.
        process_source: how that was measured, in words; "" where it was not.
        device_parts: what else takes the device's memory; with `process_bytes` they sum to `device_bytes`.
        device_bytes: what is not free on the device; None where nobody measured it.
    """

    parts: tuple[MemoryShare, ...]
    process_bytes: int | None = None
    process_source: str = ""
    device_parts: tuple[MemoryShare, ...] = ()
    device_bytes: int | None = None
