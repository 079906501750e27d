"""Locates allocations in step, phase and module, from the marked ranges."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perfkit.core.allocations import NONE, TimeBand
from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES, STEP_MARK
from perfkit.instruments.memory.module_marks import parse_module_name
from perfkit.instruments.memory.profiler_events import MarkedRange

FSDP = "FSDP::"  # FSDP2's own marks

_PHASE_OF = {MARK_PREFIX + name: number for number, name in enumerate(PHASES)}


class AllocationPlace(NamedTuple):
    """A place; `visit` counts phases so far, `turn` phases in this step; `sharding` is FSDP2's own mark."""

    step: int
    phase: int
    visit: int
    turn: int
    module: str
    sharding: str


class PlaceIndex:
    """Looks up places by time and thread.

    Steps and phases depend only on time: backward runs on its own threads while the marking thread waits. A thread
    without marks (a process group's) works for the thread inside a range of FSDP2.
    """

    def __init__(self, ranges: Sequence[MarkedRange]) -> None:
        self._steps = [mark for mark in ranges if mark.name.startswith(STEP_MARK)]
        self._phases = [mark for mark in ranges if mark.name in _PHASE_OF]
        self._nested: dict[int, list[MarkedRange]] = defaultdict(list)
        for mark in ranges:
            if parse_module_name(mark.name) is not None or mark.name.startswith(FSDP):
                self._nested[mark.thread].append(mark)
        self._step_starts = [mark.start_ns for mark in self._steps]
        self._phase_starts = [mark.start_ns for mark in self._phases]

    @property
    def first_step(self) -> int:
        """The number of the first marked step."""
        return _parse_step_number(self._steps[0].name) if self._steps else NONE

    def at(self, times: Sequence[int], threads: Sequence[int]) -> list[AllocationPlace]:
        """The places of moments in time order."""
        marking = {thread: _InnermostRange(ranges) for thread, ranges in self._nested.items()}
        return [
            self._build_place(
                time, *(marking[thread].at(time) if thread in marking else ("", _find_waiting_range(marking, time)))
            )
            for time, thread in zip(times, threads, strict=True)
        ]

    def _build_place(self, time: int, module: str, sharding: str) -> AllocationPlace:
        visit = bisect_right(self._phase_starts, time)
        inside = visit > 0 and time <= self._phases[visit - 1].end_ns
        step = bisect_right(self._step_starts, time)
        in_step = step > 0 and time <= self._steps[step - 1].end_ns
        begun = bisect_right(self._phase_starts, self._step_starts[step - 1]) if step else 0
        return AllocationPlace(
            step=_parse_step_number(self._steps[step - 1].name) if in_step else NONE,
            phase=_PHASE_OF[self._phases[visit - 1].name] if inside else NONE,
            visit=visit,
            turn=visit - begun,
            module=module,
            sharding=sharding,
        )

    def build_bands(self) -> tuple[TimeBand, ...]:
        """The steps, phases and modules as bands over time; modules with their depth."""
        bands = [
            TimeBand(kind="step", name=str(_parse_step_number(r.name)), start_ns=r.start_ns, end_ns=r.end_ns)
            for r in self._steps
        ]
        bands += [
            TimeBand(kind="phase", name=PHASES[_PHASE_OF[r.name]], start_ns=r.start_ns, end_ns=r.end_ns)
            for r in self._phases
        ]
        for ranges in self._nested.values():
            open_ends: list[int] = []
            for mark in ranges:
                name = parse_module_name(mark.name)
                if name is None:
                    continue
                while open_ends and open_ends[-1] <= mark.start_ns:
                    open_ends.pop()
                bands.append(
                    TimeBand(kind="module", name=name, start_ns=mark.start_ns, end_ns=mark.end_ns, depth=len(open_ends))
                )
                open_ends.append(mark.end_ns)
        return tuple(bands)


class _InnermostRange:
    """The innermost module and sharding range of a thread, for moments in time order."""

    def __init__(self, ranges: Sequence[MarkedRange]) -> None:
        self._ranges = ranges
        self._following = 0
        self._open: list[MarkedRange] = []

    def at(self, time: int) -> tuple[str, str]:
        while self._following < len(self._ranges) and self._ranges[self._following].start_ns <= time:
            self._open.append(self._ranges[self._following])
            self._following += 1
        # An ended range stays in the list while an inner one continues, which hooks can cause.
        while self._open and self._open[-1].end_ns < time:
            self._open.pop()
        module = sharding = ""
        for mark in self._open:
            if mark.end_ns >= time:
                name = parse_module_name(mark.name)
                module, sharding = (module, mark.name) if name is None else (name, sharding)
        return module, sharding


def _find_waiting_range(marking: Mapping[int, _InnermostRange], time: int) -> str:
    """The range of FSDP2 that any thread is in; "" for none."""
    return next((sharding for _, sharding in (innermost.at(time) for innermost in marking.values()) if sharding), "")


def _parse_step_number(name: str) -> int:
    return int(name.rpartition("#")[2])
