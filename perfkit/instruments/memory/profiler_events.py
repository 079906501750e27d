"""Events that torch's profiler saw while it recorded allocations."""

from typing import NamedTuple

import torch


class MarkedRange(NamedTuple):
    """A range that was marked (`record_function`) on a thread."""

    name: str
    thread: int
    start_ns: int
    end_ns: int


class ProfiledAllocation(NamedTuple):
    """An allocation (positive `size`) or a free, as reported by an allocator.

    `allocated` is the allocator's own total after it. `op` is what it happened in and `call` the call of it (0 for
    none), `node` the autograd node around that, `sequence` the number that ties a node to its forward op (-1 for
    none), `line` where it was called, `inputs` the addresses of the storages that the op was given.
    """

    time_ns: int
    thread: int
    address: int
    size: int
    device: torch.device
    allocated: int
    op: str
    node: str
    call: int
    sequence: int
    line: str
    inputs: tuple[int, ...]


class TensorUse(NamedTuple):
    """An op was handed a tensor: its storage's address and the object (`_cdata`), which stays when storage moves."""

    time_ns: int
    address: int
    tensor: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class ForwardCall(NamedTuple):
    """A forward op: when, on which thread, and from which line."""

    time_ns: int
    thread: int
    line: str


class LastOp(NamedTuple):
    """The op that began last: where an exception comes out of an op, the one that it comes from."""

    time_ns: int
    thread: int
    op: str
    line: str


class RecordedEvents(NamedTuple):
    """Events of a profiler, each list ordered by time. `forwards` are the ops by their sequence number.

    Without ops `uses` and `forwards` are empty and `last` is None.
    """

    allocations: list[ProfiledAllocation]
    ranges: list[MarkedRange]
    uses: list[TensorUse]
    forwards: dict[int, ForwardCall]
    last: LastOp | None = None
