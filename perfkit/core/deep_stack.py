"""Runs deeply recursive C calls on a sufficiently large stack."""

import threading
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")

_LEAST = 16 << 20
_PAGE = 1 << 16
_CHANGING = threading.Lock()  # the size is a setting of the process


def call_on_deep_stack(call: Callable[[], T], size: int) -> T:
    """Call `call` in a thread with a stack of `size` bytes, up to a quarter of the machine's free memory; only the used
    part is allocated."""
    size = max(_LEAST, min(size, psutil.virtual_memory().available // 4))
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            errors.append(error)

    _start_thread(run, size).join()
    if errors:
        raise errors[0]
    return results[0]


def _start_thread(run: Callable[[], None], size: int) -> threading.Thread:
    """A thread with a stack of `size`, or of half of that, and so on, where the system refuses as much."""
    with _CHANGING:
        before = threading.stack_size()
        try:
            while True:
                threading.stack_size(size // _PAGE * _PAGE)
                thread = threading.Thread(target=run, name="perfkit-deep-stack", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    if size <= _LEAST:
                        raise
                    size = max(_LEAST, size // 2)
                else:
                    return thread
        finally:
            threading.stack_size(before)
