"""Memory of a rank: peaks, moments of its process and device, and what was alive before a recording."""

from perfkit.core.record.quantity import NOT_MEASURED, Quantity
from perfkit.core.spec import Struct


class MemoryPeaks(Struct):
    """Peaks over the timed steps where the allocator keeps statistics (GPU), and the process's RSS.

    On a CPU the allocator keeps none: the peak comes from the events of the memory pass.
    """

    allocated: Quantity
    reserved: Quantity
    driver_used: Quantity
    rss: Quantity


class DeviceMemoryState(Struct):
    """Memory of a device at one moment, in bytes: the caching allocator's counts and the driver's view.

    `process` is the memory of this process, `device` that of all processes. `driver` is reserved for the driver and the
    firmware; if unknown, it is within `device`.
    """

    allocated: int
    reserved: int
    process: Quantity
    device: Quantity
    driver: Quantity = NOT_MEASURED


class ProcessMemory(Struct):
    """Memory of a process besides the allocated bytes, read at moments that tell its parts apart.

    In main memory: the resident set before the model was built (`before_model`, interpreter and libraries), its pages
    of files and shared memory (`mapped_before_model`), the peak resident set over the memory pass alone (`peak`), pages
    of files and shared memory at the end of that pass (`mapped_after`), and the batches kept for training (`batches`).

    On a GPU also moments of the device: its context just created (`at_context`), the process group's first collective
    done (`at_group`, with several ranks), the steps warm (`at_warm`), before the memory pass (`at_memory`) and after it
    (`at_end`).
    """

    before_model: Quantity = NOT_MEASURED
    mapped_before_model: Quantity = NOT_MEASURED
    peak: Quantity = NOT_MEASURED
    mapped_after: Quantity = NOT_MEASURED
    batches: Quantity = NOT_MEASURED
    at_context: DeviceMemoryState | None = None
    at_group: DeviceMemoryState | None = None
    at_warm: DeviceMemoryState | None = None
    at_memory: DeviceMemoryState | None = None
    at_end: DeviceMemoryState | None = None
