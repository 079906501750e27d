"""Watches the ops of a rehearsed step: reports each to a `FakeMemory`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.core.errors import UnavailableError
from perfkit.plan.rehearsal.fake_results import FakeCall, list_results
from perfkit.plan.rehearsal.op_scratch_probe import OpScratchProbe

if TYPE_CHECKING:
    from perfkit.plan.rehearsal.fake_memory import FakeMemory

_ENTER = torch.ops.profiler._record_function_enter_new.default
_EXIT = torch.ops.profiler._record_function_exit._RecordFunction
_READ_VALUE = torch.ops.aten._local_scalar_dense.default
_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)

Observe = Callable[[Any, Sequence[Any], Any], None]  # an op, its arguments and its result


class OpWatcher(TorchDispatchMode):
    """Reports every op on fake tensors and every range to a `FakeMemory`."""

    def __init__(self, memory: "FakeMemory", alone: OpScratchProbe, observe: Observe) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._memory = memory
        self._observe = observe
        self._alone = alone

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code is compiled and runs within the mode."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if any(kind not in _PLAIN for kind in types):  # a wrapper turns into calls on the tensors that it is made of
            return NotImplemented
        if func.namespace == "prim":  # what a tensor is, such as its device
            return func(*args, **kwargs)
        if func is _ENTER or func is _EXIT:
            return self._run_marker(func, args)
        if func is _READ_VALUE and isinstance(args[0], FakeTensor) and args[0].constant is None:
            return self._memory.read(args[0])
        schema = func._schema
        if schema.name in self._alone.opened:
            with self:
                return func._op_dk(self._alone.opened[schema.name], *args, **kwargs)
        call = FakeCall(func, args, kwargs)
        # Storages freed while their tensors stay, by FSDP2 and paging.
        freed = (
            [] if schema.is_mutable else [given.tensor.untyped_storage() for given in call.given if not given.nbytes]
        )
        result = call.run()
        for storage in freed:
            if storage.nbytes():  # a view, whose fake kernel gives its storage the bytes that it seems to need
                storage.resize_(0)
        _refuse_sparse(schema.name, result)
        scratch = self._alone.scratch(func, args, kwargs, result)
        self._memory.call(schema.name, schema.is_mutable, call.given, list_results(result), scratch)
        self._observe(func, args, result)
        return result

    def _run_marker(self, func: Any, args: tuple[Any, ...]) -> Any:
        with no_dispatch():  # fake tensors are none of a range's affair
            result = func(*args)
        if func is _ENTER:
            self._memory.enter(args[0])
        else:
            self._memory.leave()
        return result


def _refuse_sparse(op: str, result: Any) -> None:
    """Refuse sparse results: a fake one holds none of its parts, and only values tell how many rows are equal."""
    if isinstance(result, FakeTensor) and result.layout is torch.sparse_coo:
        raise UnavailableError(
            f"{op} makes a sparse tensor, whose size depends on values that a plan does not have: measure it with "
            "perfkit bench"
        )
