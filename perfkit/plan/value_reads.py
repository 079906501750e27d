"""Where a model's own code reads values (`.item()`, `if tensor:`), of which a plan has to assume some."""

import sys
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType

from perfkit.errors import UnavailableError
from perfkit.plan.module_locator import ModuleLocator

# Who reads more at one place, by the whole stack of calls, waits in a loop for a value that never comes. An optimizer
# may read some of each of many parameters.
_MOST = 10_000


class ValueReads:
    """The modules that read values, in the order in which they did first."""

    def __init__(self, places: ModuleLocator) -> None:
        self._places = places
        self._by: dict[str, None] = {}
        self._counts: Counter[tuple[tuple[CodeType, int], ...]] = Counter()

    def record_read(self) -> None:
        """A value is read by whoever called this. Raises `UnavailableError` where that does not end."""
        frames = list(_list_callers())
        place = tuple((frame.f_code, frame.f_lasti) for frame in frames)
        self._counts[place] += 1
        if self._counts[place] > _MOST:
            raise UnavailableError(
                f"{self._places.locate_frames(frames) or 'the step'} reads values {_MOST:,} times at one place, and "
                "a plan has none: does a loop wait for one? Measure it with perfkit bench"
            )
        if by := self._places.module(frames):
            self._by[by] = None

    def assumptions(self) -> tuple[str, ...]:
        """What was assumed, a line each."""
        return tuple(f"{by} reads a tensor value, unknown to a plan: assumed as in a normal step" for by in self._by)


def _list_callers() -> Iterator[FrameType]:
    """The frames of this thread, the innermost last."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)
