"""A rank whose C++ code gives up first reports where it is: Gloo does when another rank sends more than it expects.

Gloo's thread throws, nobody catches, and the C++ runtime calls its terminate handler, which by default aborts at once.
"""

import contextlib
import ctypes
import faulthandler
import os
from collections.abc import Callable
from pathlib import Path

from perfkit.core.errors import PerfkitError
from perfkit.measure.rank.flight_dump import save_flight_record

_LIBRARIES = ("libstdc++.so.6", "libc++.1.dylib")
_SET_TERMINATE = "_ZSt13set_terminatePFvvE"  # std::set_terminate(void (*)())
_Handler = ctypes.CFUNCTYPE(None)
_STDERR = 2

_kept: list[Callable[[], None]] = []  # handlers, for as long as the process lives


def report_on_cpp_abort(folder: Path) -> None:
    """From now on an uncaught C++ exception has this process print its stacks and leave its flight record in `folder`.

    It then ends as ever (SIGABRT). Processes that are forked from this one leave nothing.
    """
    set_terminate = _find_set_terminate()
    if set_terminate is None:
        return
    owner = os.getpid()
    before: list[Callable[[], None]] = []

    def report_and_abort() -> None:
        if os.getpid() == owner:
            faulthandler.dump_traceback(_STDERR)
            with contextlib.suppress(PerfkitError, RuntimeError, MemoryError, OSError):  # it must not stay alive
                save_flight_record(folder)
        before[0]()

    handler = _Handler(report_and_abort)
    previous = set_terminate(ctypes.cast(handler, ctypes.c_void_p))
    before.append(_Handler(previous) if previous else os.abort)
    _kept.extend((handler, before[0]))


def _find_set_terminate() -> Callable[[ctypes.c_void_p], int | None] | None:
    """None where the C++ runtime is another one."""
    for name in _LIBRARIES:
        with contextlib.suppress(OSError, AttributeError):
            function = getattr(ctypes.CDLL(name), _SET_TERMINATE)
            function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_void_p
            return function  # type: ignore[no-any-return]
    return None
