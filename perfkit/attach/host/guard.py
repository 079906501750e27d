"""The only entry from the user's program into perfkit: failures inside never reach the program."""

import logging
import os
from collections.abc import Callable

from perfkit.core.errors import PerfkitError
from perfkit.core.texts.error_text import cap_line

LOG = logging.getLogger("perfkit")


class Guard:
    """Calls perfkit's own functions on behalf of a program.

    Attributes:
        failure: the first exception of perfkit's own; None while all is well.
        reason: what it was, in a line; empty while all is well.

    The first exception is logged once and calls `switch_off`; from then on nothing is called. Forked children of the
    program (DataLoader workers) inherit the hooks, which do nothing in another process.

    What is meant for the program passes: KeyboardInterrupt and SystemExit are no failures of perfkit.
    """

    def __init__(self, switch_off: Callable[[], None], name: str = "perfkit") -> None:
        self.failure: Exception | None = None
        self.reason = ""
        self._name = name
        self._switch_off = switch_off
        self._process = os.getpid()

    def __call__(self, function: Callable[..., object], *args: object) -> None:
        if self.failure is not None or os.getpid() != self._process:
            return
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, training must go on
            self._handle_failure(error)

    def _handle_failure(self, error: Exception) -> None:
        self.failure = error
        self.reason = f"{self._name} switched itself off: {describe_error(error)}"
        plain = _is_plain(error)
        trace = None if plain else error
        LOG.warning("%s switched itself off; training continues: %s", self._name, describe_error(error), exc_info=trace)
        try:
            self._switch_off()
        except Exception as second:
            if not plain or describe_error(second) != describe_error(error):  # the same disk is full for its last words
                trace = None if _is_plain(second) else second
                LOG.warning("perfkit could not remove all of its hooks: %s", describe_error(second), exc_info=trace)


def _is_plain(error: Exception) -> bool:
    """True if a line is enough: a full disk, an impossible folder, what perfkit itself refuses."""
    return isinstance(error, OSError | PerfkitError)


def describe_error(error: BaseException) -> str:
    """The exception's type and message in a line."""
    text = cap_line(" ".join(str(error).split()))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
