"""No sampling thread is there while the process forks.

Python warns of forks of processes with several threads, and a child would inherit what the thread has taken.
"""

import os
from typing import Protocol


class Pausable(Protocol):
    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def forget(self) -> None: ...


_around: list[Pausable] = []
_registered = False


def pause_around(sampler: Pausable) -> None:
    """Pause `sampler` around forks, from now until `leave`."""
    global _registered
    _around.append(sampler)
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True  # for good: Python has no way back
        os.register_at_fork(before=_pause, after_in_parent=_resume, after_in_child=_forget)


def leave(sampler: Pausable) -> None:
    if sampler in _around:
        _around.remove(sampler)


def _pause() -> None:
    for sampler in _around:
        sampler.pause()


def _resume() -> None:
    for sampler in _around:
        sampler.resume()


def _forget() -> None:
    for sampler in _around:
        sampler.forget()
    _around.clear()
