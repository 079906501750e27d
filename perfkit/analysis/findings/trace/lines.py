"""The lines of a program that sampled stacks name, for findings about what the host does."""

from collections.abc import Iterable

from perfkit.analysis.model.loop import Loop
from perfkit.analysis.model.stacks import HotPlace, ThreadStacks
from perfkit.analysis.stacks.hot import LEAST_SAMPLES
from perfkit.units import percent

# A line with fewer of the samples is not worth its name.
_NAMED = 0.03


def in_python(loop: Loop | None) -> str:
    """`; while steps were timed the loop was in Python for 41 % of its samples in collate (train.py:88)`, or ""."""
    sampled = None if loop is None or loop.stacks is None else loop.stacks.loop
    if sampled is None or sampled.samples < LEAST_SAMPLES:
        return ""
    named = _named(sampled.python)
    return f"; of {sampled.samples:,} samples of timed steps Python ran in {named}" if named else ""


def in_data(loop: Loop) -> str:
    """What makes the batches: of the loaders' workers where they were sampled, else what the loop does in next()."""
    if loop.stacks is None:
        return ""
    workers, own = loop.stacks.workers, loop.stacks.loop
    if workers is not None and workers.samples >= LEAST_SAMPLES:
        return _told(f"; of {workers.samples:,} samples of its working workers", _of_lines(workers))
    if own is not None and own.samples >= LEAST_SAMPLES:
        return _told(f"; of {own.samples:,} samples of timed steps", own.data)
    return ""


def _of_lines(sampled: ThreadStacks) -> list[HotPlace]:
    return [HotPlace(function=line.function, place=line.place, share=line.share) for line in sampled.lines[:3]]


def _told(of: str, places: Iterable[HotPlace]) -> str:
    named = _named(places)
    return f"{of} {named}" if named else ""


def _named(places: Iterable[HotPlace]) -> str:
    """`41 % in collate (train.py:88), 12 % in ...`."""
    return ", ".join(
        f"{percent(each.share, 0)} in {each.function.rpartition('.')[2]} ({each.place})"
        for each in places
        if each.share >= _NAMED
    )
