"""Records the memory of fake tensors: every storage that an op returns, from allocation to free.

The counterpart of `AllocationProfiler` for fake tensors, with the same `RecordedEvents`.
"""

import sys
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch._C._autograd import _get_sequence_nr

from perfkit.core.allocations import UNKNOWN, InitialBlock
from perfkit.cost.torch_dispatch import find_autograd_node
from perfkit.cost.torch_fakes import BypassDispatchCache, FakeTensorMode
from perfkit.instruments.memory.profiler_events import (
    ForwardCall,
    MarkedRange,
    ProfiledAllocation,
    RecordedEvents,
    TensorUse,
)
from perfkit.instruments.training.tensors import get_address
from perfkit.plan.rehearsal.fake_results import FakeArgument
from perfkit.plan.rehearsal.host_storages import HostStorages
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.op_watcher import Observe, OpWatcher
from perfkit.plan.rehearsal.sparse.index_values import IndexValues
from perfkit.plan.rehearsal.sparse.sparse_gradients import SparseGradients

SCRATCH = 1  # of what a library works in: an address that no storage has
_OURS = str(PurePath(__file__).parents[1])
_CPU = torch.device("cpu")
_THREAD = 0  # fake tensors are computed on none but the one that asks for them
_DEFAULT_STREAM = torch.cpu.current_stream()

# What a program reads of a tensor (`if tensor:`, `.item()`) by the op that wrote it, in a step in which nothing is out
# of order: no value is redrawn, masked or infinite, and no update left out. Of any other it reads a 1.
_WRITTEN = {
    "aten::any": 0,
    "aten::isnan": 0,
    "aten::isinf": 0,
    "aten::_amp_foreach_non_finite_check_and_unscale_": 0,
}


class FakeMemory:
    """The storages of fake tensors that are alive, and what was `recorded` since `begin`. Time is counted in events.

    `told_of_read` is called before a value is read. `side_streams` has the stream of each allocation in another than
    the default one, by time.
    """

    def __init__(self, told_of_read: Callable[[], None] = lambda: None) -> None:
        self._told_of_read = told_of_read
        self.recorded = RecordedEvents([], [], [], {})
        self.side_streams: dict[int, int] = {}
        self._now = self._total = 0
        self._alive: dict[int, int] = {}  # bytes by address
        self._watched: dict[int, weakref.finalize[..., torch.UntypedStorage]] = {}
        self.host = HostStorages()
        self._values: dict[int, int] = {}
        self._open: list[tuple[str, int]] = []
        self._fused = False
        self._streams: dict[torch.cpu.Stream, int] = {}  # numbers of those that are not the default one

    @contextmanager
    def record_allocations(
        self, alone: OpScratchProbe, observe: Observe = lambda *_: None, sparse: SparseGradients | None = None
    ) -> Iterator[None]:
        """Record this thread's ops inside this context, within the fake mode; `observe` receives each call."""
        resize = torch.UntypedStorage.resize_

        def resized(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
            """Record FSDP2's and paging's frees and allocations of persistent tensors."""
            result: torch.UntypedStorage = resize(storage, size)
            address = get_address(storage)
            if address not in self.host and self._alive.get(address, 0) != storage.nbytes():
                self._end_storage(address)
                self._start_storage(storage, "aten::resize_", line=_format_line(sys._getframe(1)))
            return result

        with (
            patch.object(torch.UntypedStorage, "resize_", resized),
            _disable_storage_caching(),
            OpWatcher(self, alone, observe, sparse or SparseGradients(IndexValues(), on_gpu=False)),
        ):
            try:
                yield
            finally:
                self._release_storages()

    def begin(self) -> None:
        """Drop the recording; live storages stay."""
        self.recorded = RecordedEvents([], [], [], {})
        self.side_streams = {}

    def now(self) -> int:
        """The next tick of the recording's clock."""
        self._now += 1
        return self._now

    def list_other_blocks(self, known: Collection[int]) -> list[InitialBlock]:
        """Live storages other than the `known` addresses."""
        return [
            InitialBlock(
                address=address, size_bytes=size, category=UNKNOWN, name="a tensor outside of the training state"
            )
            for address, size in self._alive.items()
            if address not in known
        ]

    def read(self, tensor: torch.Tensor) -> float | int:
        """The value that a program reads from a fake tensor."""
        self._told_of_read()
        value = self._values.get(get_address(tensor.untyped_storage()), 1)
        return float(value) if tensor.is_floating_point() else value

    def enter(self, name: str) -> None:
        """Begin a range."""
        self._open.append((name, self.now()))

    def leave(self) -> None:
        """End the innermost range."""
        name, start = self._open.pop()
        self.recorded.ranges.append(MarkedRange(name, _THREAD, start, self.now()))

    @contextmanager
    def record_fused(self, name: str, scratch: int) -> Iterator[None]:
        """Record the ops inside this context, which keep none of their results, as one with `scratch` bytes."""
        if scratch:
            self._record_event(SCRATCH, scratch, name, self.now())
            self._record_event(SCRATCH, -scratch, name, self.now())
        self._fused = True
        try:
            yield
        finally:
            self._fused = False

    def call(
        self, name: str, mutable: bool, given: Sequence[FakeArgument], made: Sequence[FakeArgument], scratch: int
    ) -> None:
        """Record an op call: tensors `given`, tensors `made`, and `scratch` bytes."""
        if self._fused:
            return
        if self.host.compute(given):
            for argument in made:
                if argument.address not in self._alive:
                    self.host.add(argument.tensor.untyped_storage())
            return
        start = self.now()
        if find_autograd_node() is None:
            self.recorded.forwards[_get_sequence_nr()] = ForwardCall(start, _THREAD, "")
        for argument in given:
            self._record_use(argument)
        inputs = tuple([argument.address for argument in given])
        for argument in made:
            if argument.address not in self._alive:
                self._start_storage(argument.tensor.untyped_storage(), name, start, inputs)
            self._record_use(argument)
        if scratch:
            self._record_event(SCRATCH, scratch, name, start, inputs)
            self._record_event(SCRATCH, -scratch, name, start)
        if name in _WRITTEN:
            for argument in (*given, *made) if mutable else made:
                self._values[argument.address] = _WRITTEN[name]

    def record_storage(self, storage: torch.UntypedStorage) -> None:
        """Record a storage that no op on fake tensors made, until it is freed."""
        self._start_storage(storage, "")

    def move_to_host(self, storage: torch.UntypedStorage) -> None:
        """Free a storage here, as it is in the host's memory from now on, with all that is computed from it."""
        self._end_storage(get_address(storage))
        self.host.add(storage)

    def _record_use(self, used: FakeArgument) -> None:
        self.recorded.uses.append(TensorUse(self._now, used.address, used.tensor._cdata, used.shape, used.dtype))

    def _start_storage(
        self,
        storage: torch.UntypedStorage,
        op: str,
        call: int | None = None,
        inputs: tuple[int, ...] = (),
        line: str = "",
    ) -> None:
        address, size = get_address(storage), storage.nbytes()
        if not size:
            return
        self._alive[address] = size
        if address not in self._watched:
            self._watched[address] = weakref.finalize(storage, self._handle_finalized, address)
        self._record_event(address, size, op, self.now() if call is None else call, inputs, line)

    def _handle_finalized(self, address: int) -> None:
        self._watched.pop(address, None)
        self._values.pop(address, None)
        self._end_storage(address)

    def _release_storages(self) -> None:
        """Watch no storage any more: a finalizer keeps this memory, and with it the whole rehearsed model, whose
        storages then never end."""
        for finalizer in self._watched.values():
            finalizer.detach()
        self._watched.clear()

    def _end_storage(self, address: int) -> None:
        size = self._alive.pop(address, 0)
        if size:
            self._record_event(address, -size)

    def _record_event(
        self, address: int, size: int, op: str = "", call: int = 0, inputs: tuple[int, ...] = (), line: str = ""
    ) -> None:
        self._total += size
        node, time = find_autograd_node(), self.now()
        stream = torch.cpu.current_stream()
        if size > 0 and stream is not _DEFAULT_STREAM:
            self.side_streams[time] = self._streams.setdefault(stream, len(self._streams) + 1)
        self.recorded.allocations.append(
            ProfiledAllocation(
                time_ns=time,
                thread=_THREAD,
                address=address,
                size=size,
                device=_CPU,
                allocated=self._total,
                op=op,
                node="" if node is None else node.name(),
                call=call,
                sequence=-1 if node is None else node._sequence_nr(),
                line=line,
                inputs=inputs,
            )
        )


@contextmanager
def _disable_storage_caching() -> Iterator[None]:
    """Disable fake tensors' caching of calls with storages inside this context, which would keep them alive."""
    cache_key = FakeTensorMode._cache_key

    def key(mode: FakeTensorMode, state: Any, func: Any, args: Sequence[object], kwargs: Any) -> Any:
        if any(isinstance(argument, torch.UntypedStorage) for argument in args):
            raise BypassDispatchCache("a storage")
        return cache_key(mode, state, func, args, kwargs)

    with patch.object(FakeTensorMode, "_cache_key", key):
        yield


def _format_line(frame: FrameType) -> str:
    """Source line of a request, as in `AllocationProfiler`: "" within torch."""
    while frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    path = PurePath(frame.f_code.co_filename)
    return "" if "torch" in path.parts else f"{'/'.join(path.parts[-2:])}:{frame.f_lineno} {frame.f_code.co_name}"
