"""Requests for a trace of the next steps, made by an event, a signal, a file or another rank.

Ranks agree through a file in the run's folder and never wait for each other: the rank that wants a trace writes the
step at which all begin, far enough ahead that all will have read it by then. So all ranks trace the same steps.
"""

import math
import signal
import threading
from collections.abc import Collection
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from perfkit.attach.host.guard import LOG
from perfkit.attach.live.live_events import DRIFT, OUTLIER, StepEvent
from perfkit.core.errors import PerfkitError, make_unknown_name_error
from perfkit.core.files import JSON_ERRORS, write_bytes
from perfkit.core.spec import Struct
from perfkit.core.units import format_seconds
from perfkit.store.live import TRACE_NOW

REASONS = ("regression", "outlier", "signal", "file")
_REASON_OF = {DRIFT: "regression", OUTLIER: "outlier"}
# Periods after which every rank has looked: each looks once a period, at the end of a step.
LEAD = 3


class TraceRequest(Struct):
    """All ranks trace the steps after `step`. `event` is the kind of the event that asks for it, "" for a user."""

    step: int
    reason: str
    event: str = ""


class TraceTriggers:
    """Says when to trace: `due` after each step, `started` once a recording has begun.

    A request that a user makes, by `kill -USR1` or `touch FOLDER/trace-now`, is always granted. Automatic ones are
    granted `max_traces` times, `distance_s` apart: each costs time and disk. A further drift of this rank is granted at
    once; one that ranks report one after the other was traced when the first did. A `UsageError` names a reason that is
    not one of `REASONS`.
    """

    def __init__(
        self,
        on: Collection[str],
        folder: Path,
        *,
        rank: int = 0,
        world_size: int = 1,
        max_traces: int = 3,
        distance_s: float = 600.0,
        period_s: float = 1.0,
    ) -> None:
        for name in on:
            if name not in REASONS:
                raise make_unknown_name_error("reason to trace", name, REASONS)
        self._on = frozenset(on)
        self._path = folder / TRACE_NOW
        self._rank = rank
        self._several = world_size > 1
        self._most = self._left = max_traces
        self._distance_ns = round(distance_s * 1e9)
        self._period_s = period_s
        self._wish: tuple[str, str] | None = None  # reason and event
        self._request: TraceRequest | None = None
        self._served: TraceRequest | None = None
        self._served_ns = 0
        self._automatic_ns: int | None = None
        self._drifts = self._traced_drifts = 0
        if rank == 0:
            self._remove_request()  # requests to an earlier run
        self._signal = SignalFlag() if "signal" in self._on else None

    def handle_event(self, event: StepEvent, now_ns: int) -> str:
        """An outlier or a drift, which may be a reason. Returns why it is not traced though it is one; else ""."""
        if _REASON_OF[event.kind] not in self._on:
            return ""
        if not self._left:
            return f"no trace: the automatic traces of a loop ({self._most}) were made"
        self._drifts += event.kind == DRIFT
        further = event.kind == DRIFT and self._drifts > self._traced_drifts
        if not further and self._is_too_soon(now_ns):
            return f"no trace: the last automatic one began less than {format_seconds(self._distance_ns / 1e9)} ago"
        self._wish = (event.text, event.kind)
        return ""

    def poll(self, step: int, now_ns: int, step_s: float | None) -> None:
        """Check signal and file, once per period; `step_s` is the step time, None while unknown."""
        if self._signal is not None and self._signal.take():
            self._wish = ("SIGUSR1", "")
        request = self._read_request() if self._several or "file" in self._on else None
        if isinstance(request, TraceRequest):
            self._accept_request(request)
            self._remove_served(now_ns)
            return
        by_user = request is not None and "file" in self._on
        if by_user and self._rank == 0:
            self._wish = (f"the file {TRACE_NOW}", "")
        # A file that a user made becomes a request of rank 0, which the others wait for.
        if self._wish is not None and self._request is None and (self._rank == 0 or not by_user):
            self._make_request(step, step_s)

    def get_due_reason(self, step: int) -> str | None:
        """After `step`: why the steps that follow are to be traced; None where they are not."""
        request = self._request
        return request.reason if request is not None and step >= request.step else None

    def mark_started(self, now_ns: int) -> None:
        """The recording that was due has begun."""
        request = self._request
        assert request is not None
        self._request, self._wish = None, None
        self._served, self._served_ns = request, now_ns
        if request.event:
            self._left = max(0, self._left - 1)
            self._automatic_ns = now_ns
            self._traced_drifts += request.event == DRIFT
        if not self._several:
            self._remove_request()

    def close(self) -> None:
        """Take the signal's handler away, and a request that was granted."""
        if self._signal is not None:
            self._signal.close()
        if self._rank == 0 and self._served is not None and self._read_request() == self._served:
            self._remove_request()

    def _is_too_soon(self, now_ns: int) -> bool:
        return self._automatic_ns is not None and now_ns - self._automatic_ns < self._distance_ns

    def _make_request(self, step: int, step_s: float | None) -> None:
        assert self._wish is not None
        reason, event = self._wish
        self._wish = None
        ahead = max(LEAD, math.ceil(LEAD * self._period_s / step_s)) if self._several and step_s else 0
        self._request = TraceRequest(step=step + ahead, reason=reason, event=event)
        if self._several:
            self._write_request(self._request)

    def _accept_request(self, request: TraceRequest) -> None:
        """Accept the request in the file: it holds for every rank, overriding what this one just wrote."""
        if request != self._served:
            self._request = request
            self._wish = None

    def _remove_served(self, now_ns: int) -> None:
        """Remove a request on rank 0 after the other ranks have had time to read it."""
        if self._rank == 0 and self._request is None and now_ns - self._served_ns > LEAD * self._period_s * 1e9:
            self._remove_request()

    def _read_request(self) -> TraceRequest | str | None:
        """Read the request in the file, "" for an empty file (made by a user), None without a file."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PerfkitError(f"{self._path}: cannot be read ({error.strerror})") from None
        try:
            return msgspec.json.decode(data, type=TraceRequest)
        except JSON_ERRORS:
            return ""

    def _write_request(self, request: TraceRequest) -> None:
        write_bytes(self._path, msgspec.json.encode(request))

    def _remove_request(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise PerfkitError(f"{self._path}: cannot be removed ({error.strerror})") from None


class SignalFlag:
    """SIGUSR1 sets a flag, and then goes to the handler that was there before.

    Python calls handlers in the main thread alone, so it can be set up only there; where it cannot, this is logged.
    """

    def __init__(self) -> None:
        self._flag = False
        self._installed = False
        self._before: Any = signal.getsignal(signal.SIGUSR1)
        if threading.current_thread() is not threading.main_thread():
            LOG.warning("SIGUSR1 requests no trace: signal handlers can be installed in the main thread only")
        elif self._before is None:
            LOG.warning("SIGUSR1 requests no trace: its current handler is not Python's and could not be restored")
        else:
            signal.signal(signal.SIGUSR1, self._handle_signal)
            signal.siginterrupt(signal.SIGUSR1, False)  # the program's system calls go on by themselves
            self._installed = True

    def take(self) -> bool:
        """True if the signal came since the last call."""
        flag, self._flag = self._flag, False
        return flag

    def close(self) -> None:
        """Put the handler back that was there before, unless another has been set up since."""
        if not self._installed or signal.getsignal(signal.SIGUSR1) != self._handle_signal:
            return
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGUSR1, self._before)
            self._installed = False

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        self._flag = True
        if callable(self._before):  # SIG_DFL would end the process, SIG_IGN asks for nothing
            self._before(number, frame)
