"""Instruments as generators: they yield once per watched step, and return their results.

The owner of the loop drives them: a worker runs its step at every yield, a user's loop resumes them between two of its
steps. Closing one (`Generator.close`) removes its hooks and ends its profiler.

Between the end of one torch profiler and the beginning of another there must be a step under none. A range that is open
when the first ends (an optimizer's whose closure runs the passes, or one that the program marks around its whole loop)
writes its end into memory of the first when it is closed under the second (torch 2.13, `KinetoObserverContext`).
"""

import threading
from collections.abc import Generator
from typing import TypeVar

from perfkit.core.errors import PerfkitError
from perfkit.instruments.clock import Step

T = TypeVar("T")

Recording = Generator[None, None, T]


class EndNow(Exception):  # noqa: N818 - no error: it has cost enough
    """Thrown into a recording after a whole step, which is its last: it keeps what it can, or ignores it.

    Into a loop's recordings it is also thrown in the middle of a step, with the reason; they keep the steps before.
    """


def drive_recording(recording: Recording[T], step: Step, first: int) -> T:
    """Run `step(first)`, `step(first + 1)`, ... as often as `recording` wants, and return its result."""
    index = first
    while True:
        try:
            next(recording)
        except StopIteration as ended:
            result: T = ended.value
            return result
        try:
            step(index)
        except BaseException:
            recording.close()
            raise
        index += 1


def check_same_thread(began: int) -> None:
    """Raise a `PerfkitError` if a recording that began on the thread `began` ends on another one.

    torch's profiler returns no valid result there, and reading it ends the process.
    """
    if threading.get_ident() != began:
        raise PerfkitError(
            "a recording must end in the loop's thread; end that thread first, or enter and leave perfkit.profile in it"
        )
