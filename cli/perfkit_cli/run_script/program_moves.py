"""Tells whether a program moves between its steps, and when these are not counted any more, without a hook in it."""

import sys
import threading
from collections.abc import Callable
from types import FrameType

# A loop whose step is one long call is rarely seen anywhere else: at so many looks it is.
_SAMPLES = 20
_APART_S = 0.05

Place = tuple[tuple[int, int], ...]


class ProgramMoves:
    """Counts the looks at which the program had moved since the one before: `read_updates` returned something else, or
    its main thread was at another instruction at one of some samples.

    A program that waits in a loop of its own (a loader's queue) returns to the same instructions. `pause` sleeps
    between two samples.

    Attributes:
        count: the number of these looks.
    """

    def __init__(self, read_updates: Callable[[], object], pause: Callable[[float], object]) -> None:
        self.count = 0
        self._read_updates = read_updates
        self._pause = pause
        self._updates: object = None
        self._places: set[Place] = set()

    def look(self) -> None:
        """Look once more; takes a second unless there were updates."""
        before, self._updates = self._updates, self._read_updates()
        seen, self._places = self._places, set()
        if self._updates == before:
            for _ in range(_SAMPLES):
                self._places.add(_find_place())
                self._pause(_APART_S)
        if len(self._places) != 1 or self._places != seen:
            self.count += 1


def _find_place() -> Place:
    """The instruction of each frame of the main thread; frames themselves would keep their tensors alive."""
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    place = []
    while frame is not None:
        place.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return tuple(place)
