"""Where a model's own code reads values (`.item()`, `if tensor:`), of which a plan has to assume some."""

import sys
from collections.abc import Iterator
from types import FrameType

from perfkit.errors import UnavailableError
from perfkit.plan.placing import Places

# A step that reads more waits in a loop for a value that never comes.
_MOST = 10_000


class ValuesRead:
    """The modules that read values, in the order in which they did first."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._by: dict[str, None] = {}
        self._count = 0

    def note(self) -> None:
        """A value is read by whoever called this. Raises `UnavailableError` where that does not end."""
        frames = list(_callers())
        self._count += 1
        if self._count > _MOST:
            raise UnavailableError(
                f"{self._places.of(frames) or 'the step'} reads values {_MOST:,} times, which a plan does not have: "
                "does a loop wait for one? Measure it with perfkit bench"
            )
        if by := self._places.module(frames):
            self._by[by] = None

    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, a line each."""
        return tuple(
            f"{by} reads a value, of which a plan knows none: taken as in a step without surprises" for by in self._by
        )


def _callers() -> Iterator[FrameType]:
    """The frames of this thread, the innermost last."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)
