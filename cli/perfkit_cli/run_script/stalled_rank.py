"""Notices that a rank under `perfkit run` makes no progress, and has it report where it is. The program goes on."""

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from perfkit.core.errors import PerfkitError
from perfkit.store.layout import get_rank_folder
from perfkit_cli.run_script.left_report import leave_report, write_line
from perfkit_cli.run_script.program_moves import ProgramMoves

if TYPE_CHECKING:
    from perfkit.attach.profile import Profile

_FOLDER = "stalled"  # within that of the results
# NCCL ends a rank after ten minutes in a collective.
_LEAST_S = 300.0
_FACTOR = 10  # of the longest time without progress so far
_POLL_S = 30.0


class Progress(NamedTuple):
    """How far a rank is: its steps, which hooks count until all is recorded, the looks at which its program had moved,
    and the collectives that it has entered and ended."""

    steps: int
    moves: int
    entered: int
    ended: int


class StallClock:
    """Tells when a rank has made no progress for much longer than ever since its first step, and at least `least_s`."""

    def __init__(self, *, least_s: float = _LEAST_S, poll_s: float = _POLL_S) -> None:
        self.quiet_s = 0.0
        self._longest_s = 0.0
        self._least_s = least_s
        self.poll_s = poll_s
        self._last = Progress(0, 0, 0, 0)
        self._told = False

    def is_stalled(self, now: Progress) -> bool:
        """Take in the progress, `poll_s` after the last one (a machine may have slept meanwhile); True once a stall.

        Before the first step only a collective that has not ended is a stall: preparing data may take any time.
        """
        last, self._last = self._last, now
        if now != last:
            if last.steps:
                self._longest_s = max(self._longest_s, self.quiet_s)
            self.quiet_s, self._told = 0.0, False
            return False
        self.quiet_s += self.poll_s
        is_counted = now.entered > now.ended or now.steps > 0
        if self._told or not is_counted or self.quiet_s < max(self._least_s, _FACTOR * self._longest_s):
            return False
        self._told = True
        return True


class StallWatch:
    """A thread that looks for stalls of a profiled loop between `start` and `stop`. Forks do not inherit it."""

    def __init__(self, profile: "Profile", rank: int, clock: StallClock | None = None) -> None:
        self._profile = profile
        self._rank = rank
        self._clock = clock or StallClock()
        self._ended = threading.Event()
        self._moves = ProgramMoves(lambda: (profile.steps, profile.updates), self._ended.wait)

    def start(self) -> None:
        threading.Thread(target=self._look, name="perfkit stalls", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def _look(self) -> None:
        while not self._ended.wait(self._clock.poll_s):
            if self._clock.is_stalled(self._read_progress()):
                with suppress(PerfkitError, RuntimeError, MemoryError, OSError):  # a disk that is full
                    self._report()

    def _read_progress(self) -> Progress:
        entered, ended = _count_collectives()
        if entered == ended:  # else it waits for others, wherever its main thread is meanwhile
            self._moves.look()
        return Progress(self._profile.steps, self._moves.count, entered, ended)

    def _report(self) -> None:
        folder = get_rank_folder(self._profile.folder / _FOLDER, self._rank)
        place = leave_report(folder)
        quiet = f"rank {self._rank} has made no progress for {self._clock.quiet_s:.0f} s"
        write_line(f"{quiet}{place}; stacks and collectives: {folder}")


def _count_collectives() -> tuple[int, int]:
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return 0, 0
    from perfkit.measure.rank.flight_dump import count_collectives

    return count_collectives()
