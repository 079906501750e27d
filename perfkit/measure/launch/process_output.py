"""Listening to processes, asleep, until each has ended."""

import contextlib
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence

from perfkit.measure.launch.rank_processes import RankProcess

_PIPE_BYTES = 1 << 20  # the most that an output can hold unread
_INDEX = struct.Struct("I")


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
    """Each line with the index of the process that says it; None when it has ended.

    The end of its output is not waited for: what it started may keep that open. Raises TimeoutError when `deadline` has
    come before all have ended.
    """
    texts = [""] * len(processes)
    ends, end_sender = socket.socketpair()
    with ends, end_sender, selectors.DefaultSelector() as selector:
        selector.register(ends, selectors.EVENT_READ)
        for index, process in enumerate(processes):
            os.set_blocking(_get_output(process), False)
            selector.register(_get_output(process), selectors.EVENT_READ, index)
            threading.Thread(target=_report_end, args=(process, index, end_sender), daemon=True).start()
        alive = len(processes)
        while alive:
            ready = selector.select(deadline.left_s)
            if not ready:
                raise TimeoutError
            ended = [index for key, _ in ready if key.fileobj is ends for index in _receive_ends(ends)]
            for index in dict.fromkeys([key.data for key, _ in ready if key.fileobj is not ends] + ended):
                output = _get_output(processes[index])
                with contextlib.suppress(BlockingIOError):  # it ended and had said all before
                    data = os.read(output, _PIPE_BYTES)
                    *lines, texts[index] = (texts[index] + data.decode(errors="replace")).split("\n")
                    yield from ((index, line) for line in lines)
                    if not data and output in selector.get_map():
                        selector.unregister(output)
            for index in ended:
                if _get_output(processes[index]) in selector.get_map():
                    selector.unregister(_get_output(processes[index]))
                yield index, None
            alive -= len(ended)


def _get_output(process: RankProcess) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _report_end(process: RankProcess, index: int, sender: socket.socket) -> None:
    process.wait()
    with contextlib.suppress(OSError):  # nobody listens any more
        sender.sendall(_INDEX.pack(index))


def _receive_ends(receiver: socket.socket) -> list[int]:
    data = receiver.recv(_INDEX.size * 1024)
    return [index for (index,) in _INDEX.iter_unpack(data)]
