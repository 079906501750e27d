"""The lines of a program that recorded or sampled stacks name, for findings about the CPU."""

from collections.abc import Iterable, Sequence

from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.stacks import HotPlace, ThreadStacks
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.analysis.trace.idle.idle_gaps import format_function
from perfkit.core.units import format_percent

# Functions of a trace that are named, and the least share of the idle time of each.
_FUNCTIONS, _LEAST = 2, 0.1
# A line with fewer of the samples is not worth its name.
_NAMED = 0.03


def name_functions(rows: Sequence[GapRow]) -> str:
    """`; 41 % of idle time in collate (train.py:88), 12 % in ...`, where a trace has Python stacks; else ""."""
    whole = sum(row.seconds for row in rows)
    spent: dict[str, float] = {}
    for row in rows:
        if row.user_frame:
            spent[format_function(row)] = spent.get(format_function(row), 0.0) + row.seconds
    longest = sorted(spent.items(), key=lambda item: -item[1])[:_FUNCTIONS]
    shares = [(format_percent(took / whole, 0), name) for name, took in longest if took >= _LEAST * whole]
    if not shares:
        return ""
    (share, name), *others = shares
    return "; " + ", ".join([f"{share} of idle time in {name}", *(f"{share} in {name}" for share, name in others)])


def name_python_lines(loop: LoopAnalysis | None) -> str:
    """`; Python samples of the loop (300): 41 % in collate (train.py:88)`, or ""."""
    sampled = None if loop is None or loop.stacks is None else loop.stacks.loop
    if sampled is None or sampled.samples < LEAST_SAMPLES:
        return ""
    named = _join_places(sampled.python_lines)
    return f"; {sampled.samples:,} loop samples, in Python: {named}" if named else ""


def name_data_lines(loop: LoopAnalysis) -> str:
    """The code that makes the batches: in the loaders' workers where they were sampled, else in the loop's next()."""
    if loop.stacks is None:
        return ""
    workers, own = loop.stacks.workers, loop.stacks.loop
    if workers is not None and workers.samples >= LEAST_SAMPLES:
        return _format_places(f"; {workers.samples:,} samples of busy workers:", _list_places(workers))
    if own is not None and own.samples >= LEAST_SAMPLES:
        return _format_places(f"; {own.samples:,} loop samples:", own.data_lines)
    return ""


def _list_places(sampled: ThreadStacks) -> list[HotPlace]:
    return [HotPlace(function=line.function, place=line.place, share=line.share) for line in sampled.lines[:3]]


def _format_places(lead: str, places: Iterable[HotPlace]) -> str:
    named = _join_places(places)
    return f"{lead} {named}" if named else ""


def _join_places(places: Iterable[HotPlace]) -> str:
    """`41 % in collate (train.py:88), 12 % in ...`."""
    return ", ".join(
        f"{format_percent(place.share, 0)} in {place.function.rpartition('.')[2]} ({place.place})"
        for place in places
        if place.share >= _NAMED
    )
