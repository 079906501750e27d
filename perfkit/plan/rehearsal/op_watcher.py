"""Watches the ops of a rehearsed step: reports each to a `FakeMemory`.

Each dispatch mode costs as much as a fake kernel. So what else is done with ops is done by the same mode, where none is
above it: they are costed, and a backward pass runs in place what it would with real tensors.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from perfkit.cost.torch_dispatch import TorchDispatchMode, list_modes, no_dispatch
from perfkit.cost.torch_fakes import FakeTensor
from perfkit.plan.rehearsal.fake_results import FakeCall, list_results
from perfkit.plan.rehearsal.libraries.op_scratch_probe import OpScratchProbe
from perfkit.plan.rehearsal.sparse.sparse_gradients import SparseGradients

if TYPE_CHECKING:
    from perfkit.cost.live_flops import CostingMode
    from perfkit.plan.rehearsal.fake_memory import FakeMemory
    from perfkit.plan.rehearsal.inplace_gradients import GradientSums

RANGE_BEGINS = torch.ops.profiler._record_function_enter_new.default
RANGE_ENDS = torch.ops.profiler._record_function_exit._RecordFunction
_READ_VALUE = torch.ops.aten._local_scalar_dense.default
_DEVICE = torch.ops.prim.device.default
_META = torch.device("meta")
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)

Observe = Callable[[Any, Sequence[Any], Any], None]  # an op, its arguments and its result


class OpWatcher(TorchDispatchMode):
    """Reports every op on fake tensors and every range to a `FakeMemory`."""

    def __init__(self, memory: "FakeMemory", alone: OpScratchProbe, observe: Observe, sparse: SparseGradients) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sparse = sparse
        self._memory = memory
        self._observe = observe
        self._alone = alone
        self._costs: CostingMode | None = None
        self._sums: GradientSums | None = None

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code is compiled and runs within the mode."""
        return True

    @contextmanager
    def cost_ops(self, costs: "CostingMode | None") -> Iterator[None]:
        """Have `costs` cost the ops inside this context."""
        before, self._costs = self._costs, costs
        try:
            yield
        finally:
            self._costs = before

    @contextmanager
    def sum_gradients(self, sums: "GradientSums | None") -> Iterator[None]:
        """Run the ops that `sums` chooses inside this context."""
        before, self._sums = self._sums, sums
        try:
            yield
        finally:
            self._sums = before

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is _DEVICE and type(args[0]) is FakeTensor:  # asked for by torch's engine, more often than any op
            return _META if args[0].fake_mode.in_kernel_invocation else args[0].fake_device
        kwargs = kwargs or {}
        is_plain = not any(kind not in _PLAIN for kind in types)
        sums = self._sums
        chosen = None if sums is None else sums.choose_op(func, args, sys._getframe(1))
        if chosen is None or sums is None:
            # A wrapper turns into calls on the tensors that it is made of.
            return self._cost(func, types, args, kwargs) if is_plain else NotImplemented
        if is_plain:
            result = self._cost(chosen, types, args, kwargs)
        else:
            with self.sum_gradients(None), self:
                result = chosen(*args, **kwargs)
        sums.remember(result)
        return result

    def _cost(self, func: Any, types: Sequence[type], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._costs is None:
            return self._watch(func, args, kwargs)
        return self._costs.cost_call(func, types, args, kwargs, self._watch, self)

    def _watch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func.namespace == "prim":  # what a tensor is, such as its device
            return func(*args, **kwargs)
        if func is RANGE_BEGINS or func is RANGE_ENDS:
            return self._run_marker(func, args)
        if func is _READ_VALUE and isinstance(args[0], FakeTensor) and args[0].constant is None:
            return self._memory.read(args[0])
        schema = func._schema
        if schema.name in self._alone.opened:
            with self.cost_ops(None), self.sum_gradients(None), self:
                return func._op_dk(self._alone.opened[schema.name], *args, **kwargs)
        of_parts = self._sparse.find_op(func, args)
        if of_parts is not None:
            with self.cost_ops(None), self.sum_gradients(None), self:
                return of_parts(*args, **kwargs)
        call = FakeCall(func, args, kwargs)
        # Storages freed while their tensors stay, by FSDP2 and paging.
        freed = (
            [] if schema.is_mutable else [given.tensor.untyped_storage() for given in call.given if not given.nbytes]
        )
        result = _read_constant(args[0]) if func is _READ_VALUE and call.given else call.run()
        for storage in freed:
            if storage.nbytes():  # a view, whose fake kernel gives its storage the bytes that it seems to need
                storage.resize_(0)
        self._sparse.follow_op(func, args, kwargs, result)
        scratch = self._alone.scratch(func, args, kwargs, result)
        self._memory.call(schema.name, schema.is_mutable, call.given, list_results(result), scratch)
        self._observe(func, args, result)
        return result

    def _run_marker(self, func: Any, args: tuple[Any, ...]) -> Any:
        with no_dispatch():  # fake tensors are none of a range's affair
            result = func(*args)
        if func is RANGE_BEGINS:
            self._memory.enter(args[0])
        else:
            self._memory.leave()
        return result


def _read_constant(tensor: FakeTensor) -> float | int | bool:
    """The value of a fake tensor that torch keeps, as an optimizer's count of steps: asked for with every parameter."""
    assert tensor.constant is not None
    with no_dispatch():
        return tensor.constant.item()


def find_top_watcher() -> OpWatcher | None:
    """The watcher, if it is above all other dispatch modes."""
    modes = list_modes()
    return modes[-1] if modes and isinstance(modes[-1], OpWatcher) else None


@contextmanager
def cost_watched_ops(costs: "CostingMode") -> Iterator[None]:
    """Have `costs` cost all ops inside this context: by the watcher, or as a mode of its own above others."""
    watcher = find_top_watcher()
    with costs if watcher is None else watcher.cost_ops(costs):
        yield
