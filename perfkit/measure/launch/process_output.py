"""Listening to processes, asleep, until each has ended."""

import os
import selectors
import subprocess
import time
from collections.abc import Iterator, Sequence

from perfkit.measure.launch.rank_processes import RankProcess


class Deadline:
    """A moment that may come nearer."""

    def __init__(self, within_s: float) -> None:
        self._at = time.monotonic() + within_s

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def shorten(self, within_s: float) -> None:
        """Have it come in `within_s` from now at the latest."""
        self._at = min(self._at, time.monotonic() + within_s)


def read_lines(processes: Sequence[RankProcess], deadline: Deadline) -> Iterator[tuple[int, str | None]]:
    """Each line with the index of the process that says it; None when it has closed its output and ended.

    Raises TimeoutError when `deadline` has come before all have.
    """
    texts = [""] * len(processes)
    with selectors.DefaultSelector() as selector:
        for index, process in enumerate(processes):
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, index)
        while selector.get_map():
            ready = selector.select(deadline.left_s)
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                index = key.data
                data = os.read(key.fd, 65536)
                *lines, texts[index] = (texts[index] + data.decode(errors="replace")).split("\n")
                yield from ((index, line) for line in lines)
                if not data:
                    selector.unregister(key.fileobj)
                    _wait_for_end(processes[index], deadline)
                    yield index, None


def _wait_for_end(process: RankProcess, deadline: Deadline) -> None:
    try:
        process.wait(deadline.left_s)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
