"""`perfkit.annotate`: ranges that a program names itself, for Nsight Systems, torch's traces and perfkit's phases."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType, coroutine
from typing import Any, Self, TypeVar

import nvtx
import torch

from perfkit.attach.loop.phase_marks import PhaseMarks, get_followed_marks
from perfkit.core.errors import UsageError
from perfkit.core.record.trace_marks import PHASES
from perfkit.instruments.autograd_state import is_profiling
from perfkit.instruments.range_marks import DOMAIN

_profiling = is_profiling
_is_compiling: Callable[[], bool] = torch.compiler.is_compiling

F = TypeVar("F", bound=Callable[..., Any])


class Annotation:
    """A named range: `with` marks a block, `@` every call of a function; see `annotate`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._open: list[tuple[torch.profiler.record_function | None, PhaseMarks | None]] = []

    def __enter__(self) -> Self:
        if _is_compiling():  # a range would break the graph; what is compiled is told by its kernels' names
            return self
        marks = get_followed_marks() if self.name in PHASES else None
        if marks is not None and not marks.mark(self.name):
            marks = None
        recorded = None
        if _profiling():
            # By its plain name also where it is a phase: those that are not annotated are told by what torch records,
            # whereas perfkit's own marks stand for all there are.
            recorded = torch.profiler.record_function(self.name)
            recorded.__enter__()
        _NVTX.push_range(_NVTX.get_event_attributes(self.name))
        self._open.append((recorded, marks))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if _is_compiling() or not self._open:
            return
        recorded, marks = self._open.pop()
        _NVTX.pop_range()
        if recorded is not None:
            recorded.__exit__(None, None, None)
        if marks is not None:
            marks.unmark()

    def __call__(self, function: F) -> F:
        """`function` with every call in a range; generators and async functions have one range between pauses.

        Raises:
            UsageError: it is an asynchronous generator.
        """
        name = self.name
        if inspect.isasyncgenfunction(function):
            raise UsageError(
                f"annotate({name!r}): {function.__qualname__} is an asynchronous generator, which cannot be "
                "annotated; use `with perfkit.annotate(...)` inside it"
            )
        wrapper: Callable[..., Any]
        if inspect.iscoroutinefunction(function):

            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                return await _drive_coroutine(name, function(*args, **kwargs))

        elif inspect.isgeneratorfunction(function):

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                return (yield from _drive_generator(name, function(*args, **kwargs)))

        else:

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Annotation(name):
                    return function(*args, **kwargs)

        return functools.wraps(function)(wrapper)  # type: ignore[return-value]  # same signature


def annotate(name: str) -> Annotation:
    """A range called `name`, as a context manager or a decorator:

        with perfkit.annotate("augment"):
            batch = augment(batch)

        @perfkit.annotate("forward")
        def forward(batch): ...

    The range appears in Nsight Systems (NVTX, domain `perfkit`), in torch.profiler if it is active (record_function),
    and in perfkit: `data`, `forward`, `backward` and `optimizer` are the phases of a step, and take precedence over
    hooks; any other name is a range of its own in traces. Ranges nest. Without a profiler, a range costs less than a
    microsecond.

    Code traced by torch.compile has no ranges, and no graph breaks.
    """
    return Annotation(name)


_NVTX = nvtx.get_domain(DOMAIN)


def _drive_generator(name: str, inner: Any) -> Generator[Any, Any, Any]:
    """Drive a generator or coroutine with each segment in a range: in the pauses, other code has the thread."""
    proceed, argument = inner.send, None
    while True:
        try:
            with Annotation(name):
                paused = proceed(argument)
        except StopIteration as ended:
            return ended.value
        try:
            argument = yield paused
            proceed = inner.send
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever is thrown in is for the one inside
            proceed, argument = inner.throw, error


@coroutine
def _drive_coroutine(name: str, inner: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from _drive_generator(name, inner))
