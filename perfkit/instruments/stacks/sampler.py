"""Samples of one thread's Python stack, taken by a thread beside it."""

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType

from msgspec.structs import replace

from perfkit.instruments.stacks import forks
from perfkit.instruments.stacks.lock_waits import LockWaits
from perfkit.instruments.stacks.switching import SwitchInterval
from perfkit.instruments.stacks.tree import StackTree
from perfkit.store.stacks import UNTOLD, SampledThread

# Steps of equal length and samples at equal distances could meet at the same place for ever: the distances vary, by the
# golden ratio, which visits all parts of a step evenly and needs no random numbers.
_GOLDEN = 0.6180339887498949
# Where threads wait that have little to do: those that feed queues move at every batch.
_WAITING = ("/threading.py", "/queue.py", "/selectors.py", "/multiprocessing/connection.py")
_MOST_MISSED = 1000  # so many samples one stands for: a process may have been stopped


class Sampler:
    """Samples the thread `ident` while it is started; it may be started again after a stop, and goes on counting.

    The sampling thread sleeps without the interpreter's lock, takes no signals, and is not there while the process
    forks: no child inherits a lock that it holds.

    Attributes:
        failure: the exception that ended it, in a line; "" while all is well.

    Args:
        ident: the thread.
        hz: how many samples a second.
        outermost: a function whose callers are left out.
        phase: the phase that a step is in.
        each_second: called on the sampling thread once a second; False ends the sampling.
    """

    def __init__(
        self,
        ident: int,
        hz: float,
        *,
        outermost: CodeType | None = None,
        phase: Callable[[], str] = str,
        each_second: Callable[["Sampler"], bool] = lambda _: True,
    ) -> None:
        self.failure = ""
        self._ident = ident
        self._hz = hz
        self._outermost = outermost
        self._phase = phase
        self._each_second = each_second
        self._tree = StackTree()
        self._switching = SwitchInterval()
        self._waits = LockWaits()
        self._thread: threading.Thread | None = None
        self._ending = threading.Lock()
        self._others: dict[int, tuple[int, int]] = {}
        self._due = 0.0
        self._next_second = 0.0
        self._number = 0
        self._seconds = self._cost_s = self._lock_s = 0.0
        self._late, self._late_s = 0, 0.0

    def start(self) -> None:
        self.resume()
        forks.pause_around(self)

    def stop(self) -> None:
        forks.leave(self)
        self.pause()

    def resume(self) -> None:
        """Begin, or go on where no other call has."""
        if self._thread is None:
            self._ending = threading.Lock()
            self._ending.acquire()
            self._thread = threading.Thread(target=self._run, name="perfkit stacks", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """End the sampling thread, and wait for it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ending.release()
            if thread is not threading.current_thread():
                thread.join()

    def forget(self) -> None:
        """In a forked child, where the sampling thread is not."""
        self._thread = None

    def sampled(self, thread: str) -> SampledThread:
        """What there is so far: asked on the sampling thread, or when that has ended."""
        found = self._tree.sampled(thread=thread, hz=self._hz, seconds=self._seconds)
        return replace(found, cost_s=self._cost_s, lock_s=self._lock_s, late=self._late, late_s=self._late_s)

    def _run(self) -> None:
        try:
            self._take()
        except Exception as error:  # noqa: BLE001 - whatever it is, the program must not hear of it
            self.failure = f"{type(error).__name__}: {error}"
        finally:
            self._switching.restore()

    def _take(self) -> None:
        if hasattr(signal, "pthread_sigmask"):  # a signal is the program's
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        began, cpu = time.monotonic(), time.thread_time()
        before = self._seconds, self._cost_s
        self._due = began + self._distance()
        self._next_second = began + 0.2  # a short life is seen, too
        self._waits.look()
        # The lock is the clock, too: waiting for it is native, and ends at once when it is released.
        wanted = True
        while wanted and not self._ending.acquire(timeout=max(0.0, self._due - time.monotonic())):
            now = time.monotonic()
            self._sample(now)
            self._seconds = before[0] + now - began
            if now >= self._next_second:
                self._next_second = now + 1.0
                self._cost_s = before[1] + time.thread_time() - cpu
                wanted = self._each_second(self)
            self._lock_s += time.monotonic() - now
            self._waits.look()
        self._cost_s = before[1] + time.thread_time() - cpu

    def _sample(self, now: float) -> None:
        lock = self._waits.told()
        missed = 0
        while self._due <= now and missed < _MOST_MISSED:
            self._due += self._distance()
            missed += 1
        self._due = max(self._due, now)
        frames = sys._current_frames()
        frame = frames.pop(self._ident, None)
        frames.pop(threading.get_ident(), None)
        path = self._tree.path(frame, self._outermost)
        alone = self._alone(frames)
        del frame, frames  # a frame that is held keeps what is in it from being freed
        if not path:
            return
        if not self._switching.short:
            self._late, self._late_s = self._late + missed, max(self._late_s, sys.getswitchinterval())
        if alone:
            self._switching.shorten()
        else:
            self._switching.restore()
        self._tree.add(path, self._phase(), lock if alone else UNTOLD, missed)

    def _alone(self, frames: dict[int, FrameType]) -> bool:
        """Whether all other threads wait, or are where they were at the last sample: none runs Python."""
        running = {ident: frame for ident, frame in frames.items() if not frame.f_code.co_filename.endswith(_WAITING)}
        others = {ident: (id(frame), frame.f_lasti) for ident, frame in running.items()}
        before, self._others = self._others, others
        return all(before.get(ident) == place for ident, place in others.items())

    def _distance(self) -> float:
        self._number += 1
        return (0.5 + (self._number * _GOLDEN) % 1.0) / self._hz
