"""Follows the whole of a watched program for its wall time, with a few hooks that stay when recordings have ended.

They are called once an update, a batch, an evaluation and a file, not once a module; each takes about a microsecond.
"""

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from perfkit.attach.host.guard import Guard
from perfkit.attach.loop.loop_hooks import LOADER_ITERATOR
from perfkit.attach.wall_time.compile_callbacks import follow_compilations
from perfkit.attach.wall_time.ledger import BY_STEPS, Part, WallTimeLedger
from perfkit.instruments.compile_exclusion import call_uncompiled, exclude_from_compile, is_compiling

# Functions that write files of tensors: the module that has them, once the program has imported it, and their names.
# safetensors' `save_file`, which Transformers imports by name, calls `serialize_file` of its module.
_WRITERS = (
    ("torch", "save"),
    ("safetensors.torch", "serialize_file"),
    ("torch.distributed.checkpoint", "save"),
    ("torch.distributed.checkpoint", "async_save"),
)


class RunHooks:
    """Hooks of the thread whose optimizer steps first, until then of the one that installs them."""

    def __init__(self, ledger: WallTimeLedger, guard: Guard) -> None:
        self._ledger = ledger
        self._guard = guard
        self._thread = threading.get_ident()
        self._optimizer: weakref.ref[Optimizer] | None = None  # the one that is stepping
        self._updates = False
        self._trained: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._evaluated: weakref.ref[nn.Module] | None = None
        self._writers = list(_WRITERS)
        self._undo: list[Callable[[], None]] = []
        self._undo_train: Callable[[], None] | None = None

    def install(self) -> None:
        ledger = self._ledger
        self._undo = [
            register_optimizer_step_pre_hook(self._handle_step_begin).remove,
            register_optimizer_step_post_hook(self._handle_step_end).remove,
            self._replace(LOADER_ITERATOR, "__next__", self._wrap_fetch),
            self._replace(DataLoader, "__iter__", self._wrap_fetch),
            self._replace(nn.Module, "eval", self._wrap_eval),
            follow_compilations(
                lambda number: self._call(ledger.begin_compilation, number),
                lambda: self._call(ledger.leave, Part.COMPILATION),
            ),
        ]
        self._find_writers()

    def remove(self) -> None:
        if self._undo_train is not None:
            self._undo_train()
        while self._undo:
            self._undo.pop()()

    def follow_models(self, trained: Iterable[nn.Module]) -> None:
        """Take evaluations of these modules, too, for the program's."""
        self._trained.update(trained)

    def end_step(self) -> None:
        """A step of the loop has ended; where no optimizer steps, there is no other sign of it."""
        self._find_writers()
        if not self._updates:
            self._ledger.end_step(BY_STEPS)

    def _is_own_thread(self) -> bool:
        return self._thread == threading.get_ident()

    @exclude_from_compile
    def _call(self, function: Callable[..., None], *args: Any) -> None:
        call_uncompiled(self._guard, function, *args)

    @exclude_from_compile
    def _handle_step_begin(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if is_compiling():
            return
        if not self._updates:
            self._thread, self._updates = threading.get_ident(), True
        if self._is_own_thread() and (self._optimizer is None or self._optimizer() in (None, optimizer)):
            self._optimizer = weakref.ref(optimizer)
            self._call(self._look_at_mode)

    @exclude_from_compile
    def _handle_step_end(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if is_compiling() or self._optimizer is None or self._optimizer() is not optimizer:
            return  # a step within another's, or that of another thread
        self._optimizer = None
        self._call(self._ledger.end_step, _identify_optimizer(optimizer))
        self._call(self._find_writers)

    def _look_at_mode(self) -> None:
        """End an evaluation whose module trains again without a call of `train()`, as with Lightning."""
        if self._evaluated is not None:
            module = self._evaluated()
            if module is None or module.training:
                self._end_evaluation()

    def _begin_evaluation(self, module: nn.Module) -> None:
        if module not in self._trained or not self._is_own_thread() or self._ledger.phase is not Part.TRAINING:
            return
        self._evaluated = weakref.ref(module)
        self._ledger.begin_evaluation()
        if self._undo_train is None:  # an update may have ended the evaluation before
            self._undo_train = self._replace(nn.Module, "train", self._wrap_train)

    def _end_evaluation(self) -> None:
        self._evaluated = None
        if self._undo_train is not None:
            self._undo_train()
        self._undo_train = None
        self._ledger.end_evaluation()

    def _wrap_eval(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @exclude_from_compile
        def watched(module: nn.Module) -> Any:
            self._call(self._begin_evaluation, module)
            return original(module)

        return watched

    def _wrap_train(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @exclude_from_compile
        def watched(module: nn.Module, mode: bool = True) -> Any:
            if mode and module in self._trained and self._is_own_thread():
                self._call(self._end_evaluation)
            return original(module, mode)

        return watched

    def _wrap_fetch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @exclude_from_compile
        def watched(*args: Any, **kwargs: Any) -> Any:
            if not self._is_own_thread():
                return original(*args, **kwargs)
            self._call(self._look_at_mode)
            with self._within(Part.DATA):
                return original(*args, **kwargs)

        return watched

    def _wrap_writer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        @exclude_from_compile
        def watched(*args: Any, **kwargs: Any) -> Any:
            if not self._is_own_thread():
                return original(*args, **kwargs)
            with self._within(Part.CHECKPOINT):
                return original(*args, **kwargs)

        return watched

    @contextmanager
    def _within(self, part: Part) -> Iterator[None]:
        self._call(self._ledger.enter, part)
        try:
            yield
        finally:
            self._call(self._ledger.leave, part)

    def _find_writers(self) -> None:
        """Replace the functions that write files in the modules that the program has imported since."""
        for place in range(len(self._writers) - 1, -1, -1):
            owner = sys.modules.get(self._writers[place][0])
            name = self._writers[place][1]
            if owner is not None and hasattr(owner, name):
                del self._writers[place]
                self._undo.append(self._replace(owner, name, self._wrap_writer))

    def _replace(
        self, owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> Callable[[], None]:
        """Replace `owner.name`; returns what puts it back, unless somebody else has replaced it since."""
        original = getattr(owner, name)
        standing = wrap(original)
        setattr(owner, name, standing)

        def put_back() -> None:
            if getattr(owner, name) is standing:
                setattr(owner, name, original)

        return put_back


def _identify_optimizer(optimizer: Optimizer) -> Hashable:
    """The first parameter: an optimizer that is made anew for each step has the same."""
    return next((id(parameter) for group in optimizer.param_groups for parameter in group["params"]), id(optimizer))
