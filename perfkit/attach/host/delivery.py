"""Calls loggers in their own threads: they may wait for a network, training must not."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Full, Queue
from threading import Thread

from perfkit.attach.host.guard import LOG, Guard
from perfkit.attach.host.logger import Logger

WAITING = 16  # queued figures: with one per second, the seconds that a logger may stall before some are lost


class Delivery:
    """Hands figures to one logger in their order. When too many wait, new ones are dropped and counted.

    The first exception of the logger is logged once, and it is not called again.

    Attributes:
        dropped: how often figures were not sent since too many waited.
    """

    def __init__(self, logger: Logger) -> None:
        self.dropped = 0
        self._name = f"the logger {type(logger).__name__}"
        self._logger = logger
        self._guard = Guard(lambda: None, self._name)
        self._waiting: Queue[Callable[[], None] | None] = Queue(WAITING)  # None is the end
        # A daemon: a logger that never comes back must not keep the program from ending.
        self._thread = Thread(target=self._send_waiting, name=f"perfkit {self._name}", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the logger."""
        return self._guard.failure

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Send figures; never waits."""
        figures = dict(values)
        try:
            self._waiting.put_nowait(lambda: self._logger.scalars(step, figures))
        except Full:
            self.dropped += 1
            if self.dropped == 1:
                LOG.warning("%s is slow: some figures are not sent", self._name)

    def close(self, timeout_s: float, report: Path | None = None) -> bool:
        """Send the remaining figures and the finished folder `report`, and close the logger. Waits at most `timeout_s`.

        Returns whether the logger is done; where it is not, this is logged, and the program may end all the same.
        """
        deadline = time.monotonic() + timeout_s
        last: list[Callable[[], None] | None] = [self._logger.close, None]
        if report is not None:
            last.insert(0, lambda: self._logger.report(report))
        try:
            for call in last:
                self._waiting.put(call, timeout=max(0.0, deadline - time.monotonic()))
        except Full:
            pass  # it has stalled, and what follows says so
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("%s did not finish within %.0f s: unsent figures may be lost", self._name, timeout_s)
        return not self._thread.is_alive()

    def _send_waiting(self) -> None:
        while (call := self._waiting.get()) is not None:
            self._guard(call)
