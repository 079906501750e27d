"""Tracebacks of a program without the frames of perfkit that ran it or were hooked into it."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import perfkit

_ROOT = Path(perfkit.__file__).parent
_OURS = (
    f"{Path(__file__).parent}/",
    *(f"{_ROOT / name}/" for name in ("attach", "instruments")),
    str(_ROOT / "run.py"),
)
_STARTED_US = "<frozen runpy>"


def without_ours(error: BaseException) -> None:
    """Take perfkit's frames out of the tracebacks of `error` and of the exceptions that led to it."""
    for each in _chain(error):
        each.__traceback__ = _kept(each.__traceback__)


def _kept(traceback: TracebackType | None) -> TracebackType | None:
    frames = list(_frames(traceback))
    while frames and frames[0].tb_frame.f_code.co_filename == _STARTED_US:
        frames.pop(0)
    kept = [frame for frame in frames if not frame.tb_frame.f_code.co_filename.startswith(_OURS)]
    following = None
    for frame in reversed(kept):
        frame.tb_next = following
        following = frame
    return following


def _frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [linked for linked in (each.__cause__, each.__context__) if linked is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
