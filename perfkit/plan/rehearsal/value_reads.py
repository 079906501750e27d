"""Finds reads of tensor values in model code (`.item()`, `if tensor:`), which a plan must assume."""

import sys
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType

from perfkit.core.errors import UnavailableError
from perfkit.core.note import Note, make_note
from perfkit.plan.rehearsal.module_locator import ModuleLocator

# More reads at one place (by the whole call stack) mean a loop that waits for a value. Optimizers may read some values
# of each of many parameters.
_MOST = 10_000


class ValueReads:
    """Modules that read values, in order of their first read."""

    def __init__(self, places: ModuleLocator) -> None:
        self._places = places
        self._by: dict[str, None] = {}
        self._counts: Counter[tuple[tuple[CodeType, int], ...]] = Counter()

    def record_read(self) -> None:
        """Record a read by the caller. Raises `UnavailableError` for endless reads."""
        frames = list(_list_callers(sys._getframe(1)))
        place = tuple((frame.f_code, frame.f_lasti) for frame in frames)
        self._counts[place] += 1
        if self._counts[place] > _MOST:
            raise UnavailableError(
                f"{self._places.locate_frames(frames) or 'the step'} reads values {_MOST:,} times at one place, and "
                "fake tensors have none; a loop may depend on one. Use perfkit bench"
            )
        if by := self._places.module(frames):
            self._by[by] = None

    def assumptions(self) -> tuple[Note, ...]:
        """A note on each module that reads values."""
        return tuple(
            make_note(
                "plan.value_read",
                f"{by} reads a tensor value, unknown to a plan: assumed as in a normal step",
                module=by,
            )
            for by in self._by
        )


def _list_callers(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame and its callers, innermost last.

    Not that of a function with this list: the cycle would keep the tensors in all of them.
    """
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return reversed(frames)
