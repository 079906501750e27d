"""Memory by category at the peak and over a step."""

from perfkit.core.allocations import FailedRequest
from perfkit.core.spec import Struct


class MemoryShare(Struct):
    """A category's bytes at the peak."""

    category: str
    bytes: int


class MemoryRow(Struct):
    """Bytes at the peak that one op allocated in one module, of one category; `blocks` is the number of allocations."""

    category: str
    module: str
    op: str
    bytes: int
    blocks: int


class LiveBlock(Struct):
    """A large allocation alive at the peak. Texts are "" where unknown.

    `name` is the tensor's name in the training state, else its origin in words. `freed_by` is the op in which it was
    freed, its last holder.
    """

    bytes: int
    category: str
    name: str
    op: str = ""
    module: str = ""
    shape: str = ""
    dtype: str = ""
    line: str = ""
    phase: str = ""
    freed_by: str = ""


class Fragmentation(Struct):
    """The caching allocator at the peak of allocated bytes: `reserved_bytes` = allocated + free.

    `largest_free_bytes` is the largest request that the free part could serve without asking the device; None where the
    segments of live blocks are unknown.
    """

    reserved_bytes: int
    allocated_bytes: int
    free_bytes: int
    largest_free_bytes: int | None


class MemoryGrowth(Struct):
    """Memory that each step leaves behind: bytes and blocks a step, over `steps` consecutive steps, from one origin."""

    bytes_per_step: int
    blocks_per_step: float
    steps: int
    category: str
    op: str = ""
    module: str = ""
    line: str = ""
    shape: str = ""
    dtype: str = ""


class TimelineBand(Struct):
    """A step, phase or module over the timeline (`kind`), in seconds from its beginning."""

    kind: str
    name: str
    start_s: float
    end_s: float
    depth: int = 0


class MemoryAccount(Struct):
    """The balance at the peak of one device: `categories` sum to `peak_bytes` exactly.

    `outside_allocator` are bytes outside the allocated ones (reserved but free, libraries, unexplained); with
    `peak_bytes` they sum to `process_bytes`. A part may be negative where allocated pages were never touched.
    `process_bytes` is the memory of the process as the system reports it, None where not measured. `device_parts` are
    other uses of a GPU's memory (other processes, driver reserve); with `process_bytes` they sum to `device_bytes`.

    `timeline_s` are times since the start of the step with the peak, else of the recording. `timeline_categories` are
    the bytes by category at these times, thinned for drawing without losing a maximum. `step_peaks` are the peaks of
    all recorded steps. `rows` are the bytes at the peak by category, module and op. `failed_request` is the request
    that ended the recording. `has_times` is False for a step that was never run: times count events, one per
    nanosecond.
    """

    peak_bytes: int
    peak_phase: str
    source: str
    categories: tuple[MemoryShare, ...]
    outside_allocator: tuple[MemoryShare, ...] = ()
    process_bytes: int | None = None
    process_source: str = ""
    device_parts: tuple[MemoryShare, ...] = ()
    device_bytes: int | None = None
    device: str = ""
    peak_step: int | None = None
    peak_s: float = 0.0
    step_peaks: tuple[int, ...] = ()
    timeline_s: tuple[float, ...] = ()
    timeline_categories: dict[str, tuple[int, ...]] = {}
    bands: tuple[TimelineBand, ...] = ()
    largest_blocks: tuple[LiveBlock, ...] = ()
    rows: tuple[MemoryRow, ...] = ()
    fragmentation: Fragmentation | None = None
    growth: tuple[MemoryGrowth, ...] = ()
    failed_request: FailedRequest | None = None
    has_times: bool = True


def format_request_origin(failed: FailedRequest) -> str:
    """`by aten::mm, in blocks.3, at model.py:12 forward, forward of step 2`; empty where nothing is known."""
    step = "" if failed.step is None else f"step {failed.step}"
    when = " of ".join(filter(None, (failed.phase, step)))
    parts = [f"by {failed.op}" if failed.op else "", f"in {failed.module}" if failed.module else ""]
    parts += [f"at {failed.line}" if failed.line else "", when]
    return ", ".join(filter(None, parts))
