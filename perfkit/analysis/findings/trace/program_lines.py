"""The lines of a program that stacks name, of a trace or sampled ones, for findings about what the host does."""

from collections.abc import Iterable, Sequence

from perfkit.analysis.model.launches import GapRow
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.stacks import HotPlace, ThreadStacks
from perfkit.analysis.stacks.hot_lines import LEAST_SAMPLES
from perfkit.analysis.trace.idle_gaps import format_function
from perfkit.units import format_percent

# Of functions that a trace names, and of what part of the time on.
_FUNCTIONS, _MUCH = 2, 0.1
# A line with fewer of the samples is not worth its name.
_NAMED = 0.03


def name_functions(rows: Sequence[GapRow]) -> str:
    """`; 41 % of the idle time in collate (train.py:88), 12 % in ...`, where a trace has Python's stacks; else ""."""
    whole = sum(row.seconds for row in rows)
    spent: dict[str, float] = {}
    for row in rows:
        if row.own:
            spent[format_function(row)] = spent.get(format_function(row), 0.0) + row.seconds
    longest = sorted(spent.items(), key=lambda item: -item[1])[:_FUNCTIONS]
    told = [(format_percent(took / whole, 0), name) for name, took in longest if took >= _MUCH * whole]
    if not told:
        return ""
    (share, name), *others = told
    return "; " + ", ".join([f"{share} of the idle time in {name}", *(f"{share} in {name}" for share, name in others)])


def name_python_lines(loop: LoopAnalysis | None) -> str:
    """`; of 300 samples of the loop Python ran in 41 % in collate (train.py:88)`, or ""."""
    sampled = None if loop is None or loop.stacks is None else loop.stacks.loop
    if sampled is None or sampled.samples < LEAST_SAMPLES:
        return ""
    named = _join_places(sampled.python)
    return f"; of {sampled.samples:,} samples of the loop Python ran in {named}" if named else ""


def name_data_lines(loop: LoopAnalysis) -> str:
    """What makes the batches: of the loaders' workers where they were sampled, else what the loop does in next()."""
    if loop.stacks is None:
        return ""
    workers, own = loop.stacks.workers, loop.stacks.loop
    if workers is not None and workers.samples >= LEAST_SAMPLES:
        return _format_places(f"; of {workers.samples:,} samples of its working workers", _list_places(workers))
    if own is not None and own.samples >= LEAST_SAMPLES:
        return _format_places(f"; of {own.samples:,} samples of the loop", own.data)
    return ""


def _list_places(sampled: ThreadStacks) -> list[HotPlace]:
    return [HotPlace(function=line.function, place=line.place, share=line.share) for line in sampled.lines[:3]]


def _format_places(of: str, places: Iterable[HotPlace]) -> str:
    named = _join_places(places)
    return f"{of} {named}" if named else ""


def _join_places(places: Iterable[HotPlace]) -> str:
    """`41 % in collate (train.py:88), 12 % in ...`."""
    return ", ".join(
        f"{format_percent(each.share, 0)} in {each.function.rpartition('.')[2]} ({each.place})"
        for each in places
        if each.share >= _NAMED
    )
