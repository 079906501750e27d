"""Connects to the Ray cluster that work is given to: that of `RAY_ADDRESS`, else one that runs here, else one
started here."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from perfkit.core.errors import UnavailableError

_REACH_S = 10.0


def connect_ray() -> tuple[Any, bool]:
    """The module `ray`, connected, and True if it was not connected before: then the caller shuts it down.

    `UnavailableError` says what is missing if Ray is not installed or the cluster cannot be reached.
    """
    handler = signal.getsignal(signal.SIGTERM)
    ray = _import_ray()
    if ray.is_initialized():
        return ray, False
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        _check_reachable(address)
        ray.init(log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    except (OSError, ValueError, RuntimeError) as error:
        where = f"at RAY_ADDRESS={address} " if address else ""
        raise UnavailableError(f"no Ray cluster {where}can be reached or started: {get_last_line(error)}") from None
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray raises one of its own instead
    return ray, True


@contextmanager
def keep_signal_errors() -> Iterator[None]:
    """Re-raise errors of a SIGTERM handler unchanged, also while Ray waits.

    Ray itself replaces them by a plain KeyboardInterrupt, whatever the signal.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    raised: list[BaseException] = []

    def remember(number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    signal.signal(signal.SIGTERM, remember)
    try:
        yield
    except KeyboardInterrupt:
        if raised:
            raise raised[0] from None
        raise
    finally:
        signal.signal(signal.SIGTERM, handler)


def get_last_line(error: Exception) -> str:
    """The last line of a Ray error, without its tracebacks."""
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise UnavailableError("Ray is needed: pip install 'perfkit[ray]'") from None
    return ray


def _check_reachable(address: str) -> None:
    """`OSError` where nothing answers at `host:port`: Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
