"""Tracebacks of a program without the frames of perfkit that ran it or were hooked into it."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import perfkit
from perfkit.core.errors import walk_exception_chain

_ROOT = Path(perfkit.__file__).parent
_OURS = (
    f"{Path(__file__).parent}/",
    *(f"{_ROOT / name}/" for name in ("attach", "instruments")),
    str(_ROOT / "run.py"),
)
_STARTED_US = "<frozen runpy>"


def strip_own_frames(error: BaseException) -> None:
    """Take perfkit's frames out of the tracebacks of `error` and of the exceptions that led to it."""
    for raised in walk_exception_chain(error):
        raised.__traceback__ = _filter_frames(raised.__traceback__)


def _filter_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = list(_walk_frames(traceback))
    while frames and frames[0].tb_frame.f_code.co_filename == _STARTED_US:
        frames.pop(0)
    kept = [frame for frame in frames if not frame.tb_frame.f_code.co_filename.startswith(_OURS)]
    following = None
    for frame in reversed(kept):
        frame.tb_next = following
        following = frame
    return following


def _walk_frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
