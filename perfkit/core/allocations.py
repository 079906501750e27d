"""Defines allocation events, the common form of all memory recordings.

A run's recorder writes them; readers derive them from traces, allocator snapshots and memory timelines; the engine in
`analysis/memory` analyzes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfkit.core.sanitize import escape_control_chars
from perfkit.core.spec import Struct

NONE = -1

# CUDA's caching allocator allocates multiples of it (kMinBlockSize, c10/cuda/CUDACachingAllocator.cpp).
CUDA_UNIT_BYTES = 512

# Requests up to this size are served from pools whose blocks are split to the last unit; a larger one keeps the rest of
# its free block if that is at most this size (kSmallSize, `should_split`).
CUDA_SMALL_BYTES = 1 << 20

Ints = NDArray[np.int64]
Numbers = NDArray[np.int32]

PARAMETER = "parameter"
GRADIENT = "gradient"
OPTIMIZER_STATE = "optimizer state"
BUFFER = "buffer"
INPUT = "input"
ACTIVATION = "activation"
RECOMPUTED = "recomputed activation"
AUTOCAST = "autocast weight copy"
RETAINED = "retained output"
TEMPORARY = "temporary"
UNSHARDED_PARAMETER = "unsharded parameter"
COMMUNICATION_BUFFER = "communication buffer"
WORKSPACE = "workspace"
GRAPH_POOL = "compiled-graph pool"
MEMORY_POOL = "memory pool"
OFFLOAD = "offload buffer"
UNKNOWN = "unknown"

CATEGORIES = (
    PARAMETER,
    GRADIENT,
    OPTIMIZER_STATE,
    BUFFER,
    INPUT,
    ACTIVATION,
    RECOMPUTED,
    AUTOCAST,
    RETAINED,
    TEMPORARY,
    UNSHARDED_PARAMETER,
    COMMUNICATION_BUFFER,
    WORKSPACE,
    GRAPH_POOL,
    MEMORY_POOL,
    OFFLOAD,
    UNKNOWN,
)

# Memory between steps: the training state, and all other tensors, on the training device and (if another) the host.
OTHER = "other"
HOST = "host"
LIVE_CATEGORIES = (PARAMETER, GRADIENT, OPTIMIZER_STATE, BUFFER, OTHER, HOST)

PoolId = tuple[int, int]
SHARED_POOL: PoolId = (0, 0)
_DEFAULT_STREAM = 0


def is_graph_pool(pool: PoolId, streams: Iterable[int | None]) -> bool:
    """True if a private pool of a CUDA caching allocator belongs to a CUDA graph, by its id and its streams.

    The id of a graph's own pool is (n, 0). A handle requested by the program (`torch.cuda.graph_pool_handle`, as
    torch.compile does) and a `torch.cuda.MemPool` (registered with NCCL, say) are both (0, n) (`MemPool::MemPool`,
    ATen/cuda/MemPool.cpp). The default stream is never captured (`cudaStreamBeginCapture`), so a pool that serves it
    does not belong to a graph; a pool that serves only other streams is assumed to.
    """
    return pool != SHARED_POOL and (pool[0] != 0 or _DEFAULT_STREAM not in streams)


def round_cuda_size(requested: int) -> int:
    """The least bytes that CUDA's caching allocator gives for a request: whole units (`round_size`)."""
    return -(-requested // CUDA_UNIT_BYTES) * CUDA_UNIT_BYTES


def can_cuda_serve(block: int, requested: int) -> bool:
    """True if CUDA's caching allocator may have served a request with a block of `block` bytes.

    With `expandable_segments` blocks are always split; with `max_split_size_mb` larger rests than these are kept, of
    which nothing is known here.
    """
    rest = block - round_cuda_size(requested)
    return rest == 0 or (round_cuda_size(requested) > CUDA_SMALL_BYTES and 0 < rest <= CUDA_SMALL_BYTES)


class TimeBand(Struct):
    """A range of time above the events: `kind` is `step`, `phase` or `module`, `depth` its nesting among its kind."""

    kind: str
    name: str
    start_ns: int
    end_ns: int
    depth: int = 0


class FailedRequest(Struct):
    """The allocation that failed: its size if known, the allocator's message, and its place."""

    bytes: int | None
    message: str
    phase: str = ""
    step: int | None = None
    op: str = ""
    module: str = ""
    line: str = ""


class InitialBlock(Struct):
    """A storage alive when a recording of allocations begins, with its category and name.

    `shape` (`[8, 1024]`) and `dtype` (`bf16`) are those of its tensor; "" if unknown.
    """

    address: int
    size_bytes: int
    category: str
    name: str
    shape: str = ""
    dtype: str = ""


@dataclass(frozen=True, kw_only=True)
class ReservedSegments:
    """Segments that the allocator reserved from the device (positive `size`) and released (negative), ordered by time.

    `at_event` is the number of allocation events before it. `expandable` is True for a piece of an expandable segment:
    where such pieces touch, one request may span them, which it cannot across segments obtained one by one. It is empty
    where no piece is.
    """

    at_event: Ints
    address: Ints
    size: Ints
    expandable: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    @classmethod
    def make_empty(cls) -> "ReservedSegments":
        nothing = np.empty(0, np.int64)
        return cls(at_event=nothing, address=nothing, size=nothing)

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True)
class PrivateSegment:
    """A segment of a CUDA graph's private pool, which serves no other requests.

    `unused_bytes` belonged to no block when recording ended. A graph uses its pool in every replay, unseen by the
    allocator.
    """

    address: int
    size_bytes: int
    unused_bytes: int


@dataclass(frozen=True, kw_only=True)
class Allocations:
    """The allocation events of one device, ordered by time.

    Attributes:
        device: `cpu`, `cuda:0`, ...
        source: how the events were obtained, in words.
        time_ns: time of the event, on an unspecified clock that `bands` share.
        address: of the block; NONE if the source does not report addresses.
        size: bytes, positive for an allocation, negative for a free.
        phase: index into `core.record.trace_marks.PHASES`, NONE outside of all.
        visit: number of phases begun so far, which distinguishes two backward phases of one step.
        step: number of the step as the source counts them, NONE outside of steps.
        op, module, line, shape, dtype: index into `names`, 0 if unknown. For an allocation: its origin, `line` as
            `file.py:123 function`, `shape` as `[8, 1024]`, `dtype` short (`bf16`). For a free: its op, which
            was the last to hold the block.
        category: purpose of an allocation, if the source knows it (index into `names`, else 0): from an address of the
            training state, a stack, or the source's own classification.
        names: the texts; `names[0]` is "".
        known: blocks alive before the first event whose purpose is known.
        unexplained_bytes: bytes allocated before the first event, besides `known`; 0 without a count.
        reserved: segments reserved from the device; empty if not recorded or not cached.
        private: segments of CUDA graphs' private pools; empty if not recorded.
        bands: steps, phases and modules over time.
        failed: the request that ended the recording.
        failures: of each failed request, also those that the program survived, how many events came before it. Frees
            that follow, up to the next allocation, are by the exception: when the program would have freed these blocks
            is unknown.
    """

    device: str
    source: str
    time_ns: Ints
    address: Ints
    size: Ints
    phase: Numbers
    visit: Numbers
    step: Numbers
    op: Numbers
    module: Numbers
    line: Numbers
    shape: Numbers
    dtype: Numbers
    category: Numbers
    names: tuple[str, ...]
    known: tuple[InitialBlock, ...] = ()
    unexplained_bytes: int = 0
    reserved: ReservedSegments = field(default_factory=ReservedSegments.make_empty)
    private: tuple[PrivateSegment, ...] = ()
    bands: tuple[TimeBand, ...] = ()
    failed: FailedRequest | None = None
    failures: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.size)

    def get_text(self, column: Numbers, event: int) -> str:
        """The text of a column (`op`, `module` ...) at an event."""
        return self.names[int(column[event])]


COLUMNS = (
    "time_ns",
    "address",
    "size",
    "phase",
    "visit",
    "step",
    "op",
    "module",
    "line",
    "shape",
    "dtype",
    "category",
)  # the columns of `Allocations`, one entry an event

WIDE = ("time_ns", "address", "size")  # those of 64 bits
TEXTS = ("op", "module", "line", "shape", "dtype", "category")  # those that index `names`


class TextNumbers:
    """Numbers for texts, in the order in which they come; "" is 0."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def number(self, text: str) -> int:
        known = self._numbers.get(text)
        return self._numbers.setdefault(escape_control_chars(text), len(self._numbers)) if known is None else known

    def list_texts(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def build_allocations(*, device: str, source: str, names: tuple[str, ...] = ("",), **columns: Any) -> Allocations:
    """`Allocations` from the columns that a source has: those of texts that are missing are unknown throughout, `phase`
    and `step` NONE, `visit` 0. Fields other than columns (`known`, `bands` ...) are passed on."""
    count = len(columns["size"])
    missing = {"phase": NONE, "step": NONE}
    filled: dict[str, Any] = {
        name: np.asarray(columns.pop(name), np.int64 if name in WIDE else np.int32)
        if name in columns
        else np.full(count, missing.get(name, 0), np.int64 if name in WIDE else np.int32)
        for name in COLUMNS
    }
    return Allocations(device=device, source=source, names=names, **filled, **columns)
