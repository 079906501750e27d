"""Marks the phases of an attached loop for the instruments that need them."""

import threading
from contextlib import AbstractContextManager

from perfkit.instruments.range_marks import mark_phase

# The marks of the watched loop, which receive the program's own phases; None without a loop.
_followed: "PhaseMarks | None" = None


class PhaseMarks:
    """Consecutive phases: each lasts until the next begins, so the loss, computed between a module's forward and the
    backward pass, counts as forward.

    Ranges are marked only while `on`, and `current` is always the phase of now, "" for none. An optimizer that runs
    forward and backward itself (a closure) goes on with its own phase after them. What the program marks itself goes
    before what hooks see.
    """

    def __init__(self) -> None:
        self.on = False
        self.current = ""
        self._open: AbstractContextManager[None] | None = None
        self._stepping = False
        self._by_hand: list[str] = []
        self._thread: int | None = None

    def enter(self, name: str) -> None:
        """The phase `name` begins here, unless the loop is in it already."""
        self._thread = threading.get_ident()
        if name == "optimizer":
            self._stepping = True
        self._change_phase(self._by_hand[-1] if self._by_hand else name)

    def leave(self, name: str) -> None:
        """Leave the phase `name`; the next work is in none, or in the optimizer's where that is still stepping."""
        if name == "optimizer":
            self._stepping = False
        if self.current == name and not self._by_hand:
            self._close_phase()
            if self._stepping:
                self.enter("optimizer")

    def mark(self, name: str) -> bool:
        """The program starts the phase `name`; returns True if on the followed thread."""
        if self._thread not in (None, threading.get_ident()):
            return False
        self._by_hand.append(name)
        self._change_phase(name)
        return True

    def unmark(self) -> None:
        """The phase that was marked last has ended; the one around it, if any, goes on."""
        self._by_hand.pop()
        if self._by_hand:
            self._change_phase(self._by_hand[-1])
        else:
            self._close_phase()

    def end(self) -> None:
        """Close all phases: a step ends."""
        self._close_phase()

    def _change_phase(self, name: str) -> None:
        if name == self.current and (self._open is not None or not self.on):
            return
        self._close_phase()
        self.current = name
        if self.on:
            self._open = mark_phase(name)
            self._open.__enter__()

    def _close_phase(self) -> None:
        if self._open is not None:
            self._open.__exit__(None, None, None)
        self._open, self.current = None, ""


def follow_marks(marks: PhaseMarks | None) -> None:
    """Forward the phases that the program marks to `marks`."""
    global _followed
    _followed = marks


def get_followed_marks() -> PhaseMarks | None:
    return _followed
