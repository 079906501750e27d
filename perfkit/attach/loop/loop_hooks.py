"""The hooks that follow a loop from outside: optimizers' steps, forward and backward passes, batches fetched.

Each is called on the thread that trains, costs a microsecond or less, and is gone after `remove`. What torch.compile
traces sees none of them.
"""

import functools
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import torch
import torch.autograd
from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data.dataloader import _BaseDataLoaderIter

import perfkit
from perfkit.attach.host.guard import Guard
from perfkit.core.errors import walk_exception_chain
from perfkit.instruments.autograd_state import is_in_backward
from perfkit.instruments.compile_exclusion import call_uncompiled, exclude_from_compile, is_compiling
from perfkit.techniques.base.call_wrappers import Call, wrap_calls

LOADER_ITERATOR = _BaseDataLoaderIter  # its `__next__` gives the batches of every DataLoader

_OURS = tuple(f"{Path(perfkit.__file__).parent / name}{os.sep}" for name in ("attach", "instruments"))


class Follower(Protocol):
    """Receives the events of a loop; nested events of one kind are reported once, as for an optimizer that steps
    another."""

    def began(self, phase: str) -> None:
        """`data`, `backward`: a batch is being fetched, a backward pass runs."""

    def ended(self, phase: str, result: Any) -> None:
        """`result` is the batch, None where it ended with an exception."""

    def forward(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """A module that is listened to is called."""

    def collected(self, took_ns: int) -> None:
        """Python has collected garbage on the thread that trains."""

    def stepping(self, optimizer: Optimizer) -> None: ...

    def stepped(self, optimizer: Optimizer) -> None: ...


class LoopHooks:
    """Hooks of one thread's loop: the thread whose optimizer stepped first."""

    def __init__(self, follower: Follower, guard: Guard) -> None:
        self._follower = follower
        self.guard = guard
        self._thread: int | None = None
        self._optimizer: Optimizer | None = None  # the one that is stepping
        self._inside: set[str] = set()
        self._calling = False  # whether a module that is listened to is being called
        self._on = False
        self._collecting_since_ns = 0
        self._undo: list[Callable[[], None]] = []
        self._listening: list[Callable[[], None]] = []

    def install(self) -> None:
        """Follow optimizers, backward passes and DataLoaders from now on."""
        self._on = True
        self._undo = [
            register_optimizer_step_pre_hook(self._handle_step_begin).remove,
            register_optimizer_step_post_hook(self._handle_step_end).remove,
            self._wrap_function(torch.autograd, "_engine_run_backward", "backward"),
            self._wrap_function(LOADER_ITERATOR, "__next__", "data"),
            functools.partial(gc.callbacks.remove, self._handle_collection),
        ]
        gc.callbacks.append(self._handle_collection)

    def listen(self, modules: Iterable[nn.Module]) -> None:
        """Follow the calls of `modules` from now on, and of no others; of calls within calls the outermost."""
        self._stop_listening()
        self._listening = [wrap_calls(module, functools.partial(self._wrap_module, module)) for module in modules]

    def remove(self) -> None:
        """Take every hook away."""
        self._on = False
        self._stop_listening()
        while self._undo:
            self._undo.pop()()

    def _stop_listening(self) -> None:
        while self._listening:
            self._listening.pop()()

    def _is_own_thread(self) -> bool:
        if is_in_backward():  # on a GPU on a thread of its own, which works for the one that trains
            return True
        if self._thread is None:
            self._thread = threading.get_ident()
        return self._thread == threading.get_ident()

    @exclude_from_compile
    def _handle_step_begin(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if is_compiling() or not self._on or not self._is_own_thread():
            return
        # An optimizer may be a wrapper that steps another. One that has not ended otherwise has failed.
        if self._optimizer is None or self._optimizer is optimizer or not _is_within_another_step():
            self._optimizer = optimizer
            call_uncompiled(self.guard, self._follower.stepping, optimizer)

    @exclude_from_compile
    def _handle_step_end(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if is_compiling() or not self._on or self._optimizer is not optimizer or not self._is_own_thread():
            return
        self._optimizer = None
        call_uncompiled(self.guard, self._follower.stepped, optimizer)

    def _handle_collection(self, phase: str, _info: dict[str, int]) -> None:
        if not self._on or self._thread not in (None, threading.get_ident()):
            return
        if phase == "start":
            self._collecting_since_ns = time.perf_counter_ns()
        elif self._collecting_since_ns:
            call_uncompiled(self.guard, self._follower.collected, time.perf_counter_ns() - self._collecting_since_ns)
            self._collecting_since_ns = 0

    def _wrap_module(self, module: nn.Module, original: Call) -> Call:
        @exclude_from_compile
        def told(*args: Any, **kwargs: Any) -> Any:
            mine = self._on and not is_compiling() and self._thread in (None, threading.get_ident())
            if not mine or self._calling or is_in_backward():  # within another's call, or run again for a backward pass
                return original(*args, **kwargs)
            call_uncompiled(self.guard, self._follower.forward, module, args, kwargs)
            self._calling = True
            try:
                return original(*args, **kwargs)
            finally:
                self._calling = False

        return told

    def _wrap_function(self, owner: Any, name: str, phase: str) -> Callable[[], None]:
        """Wrap `owner.name` to report its start and end; returns the function that undoes it."""
        original = getattr(owner, name)

        @functools.wraps(original)
        @exclude_from_compile
        def followed(*args: Any, **kwargs: Any) -> Any:
            # Another thread's batches are prefetched: nothing waits for them.
            outer = self._on and phase not in self._inside and self._thread in (None, threading.get_ident())
            if not outer:
                return original(*args, **kwargs)
            self._inside.add(phase)
            call_uncompiled(self.guard, self._follower.began, phase)
            result = None
            try:
                result = original(*args, **kwargs)
            finally:
                self._inside.discard(phase)
                call_uncompiled(self.guard, self._follower.ended, phase, result)
            return result

        def put_back() -> None:
            # A later replacement by others stays in place, and calls through.
            if getattr(owner, name) is followed:
                setattr(owner, name, original)

        setattr(owner, name, followed)
        return put_back


def _is_within_another_step() -> bool:
    """True if the optimizer steps within another one's step: torch wraps one function around all."""
    around = sys._getframe(2)
    frame = around.f_back
    while frame is not None and frame.f_code is not around.f_code:
        frame = frame.f_back
    return frame is not None


def remove_own_frames(error: BaseException) -> None:
    """Take the frames of the hooks out of the tracebacks of a program's own exception and of those behind it."""
    for raised in walk_exception_chain(error):
        _clean_traceback(raised.__traceback__)


def _clean_traceback(frame: TracebackType | None) -> None:
    before: TracebackType | None = None
    while frame is not None:
        if frame.tb_frame.f_code.co_filename.startswith(_OURS) and before is not None:
            before.tb_next = frame.tb_next
        else:
            before = frame
        frame = frame.tb_next
