"""The phases of a step, one after the other, also where an update evaluates the loss."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

Mark = Callable[[str], AbstractContextManager[object]]


class Phases:
    """Marks of phases that lie side by side, however the code that they mark is nested."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._phase = ""
        self._open = ExitStack()

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        """In a phase, and not in the one around it."""
        outer = self._phase
        self._enter_phase(phase)
        try:
            yield
        finally:
            self._enter_phase(outer)

    def _enter_phase(self, phase: str) -> None:
        self._open.close()
        self._phase = phase
        if phase:
            self._open.enter_context(self._mark(phase))
