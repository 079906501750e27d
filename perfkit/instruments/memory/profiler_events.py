"""Structs of the events recorded by torch's profiler."""

from typing import NamedTuple

import torch


class MarkedRange(NamedTuple):
    """A marked range (`record_function`) on a thread."""

    name: str
    thread: int
    start_ns: int
    end_ns: int


class ProfiledAllocation(NamedTuple):
    """An allocation (positive `size`) or a free, as reported by an allocator.

    `allocated` is the allocator's total afterwards. `op` is the enclosing op, `call` its call (0 for none), `node` the
    enclosing autograd node, `sequence` the number that links a node to its forward op (-1 for none), `line` the call
    site, `inputs` the addresses of the op's input storages.
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
    """A tensor passed to an op: its storage's address, and its object (`_cdata`), which persists when storage moves."""

    time_ns: int
    address: int
    tensor: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class ForwardCall(NamedTuple):
    """A forward op: time, thread and source line."""

    time_ns: int
    thread: int
    line: str


class LastOp(NamedTuple):
    """The op that began last: the origin of an exception in an op."""

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
