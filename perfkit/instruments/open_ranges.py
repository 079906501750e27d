"""Ranges of a program that outlast the step they begin in, which stand in the way of a second profiler.

See `perfkit.instruments.recording`: a range that was opened under one profiler must not be closed under another.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from perfkit.core.errors import PerfkitError
from perfkit.core.record.trace_marks import STEP_MARK

_NUMBERS = re.compile(r"\d+")
_OPTIMIZER_STEP = "Optimizer.step#"


class OpenRangeError(PerfkitError):
    """A second profiler may not begin."""

    id = "profiler.open_range"

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the program's range {names[0]!r} spans several steps, and no other profiler may start within it; "
            "mark at most one step, or record only memory (--trace 0)"
        )


class RangeSpan(NamedTuple):
    """A range that was marked, in nanoseconds."""

    name: str
    start_ns: int
    end_ns: int


def find_open_ranges(spans: Iterable[RangeSpan]) -> tuple[str, ...]:
    """The ranges that were open at the end of the last step and may stay open for several more.

    torch ends an unclosed range together with the one around it, at the same nanosecond, which identifies it. A range
    that is open at the end of every step, by its name without numbers, is one that the program opens and closes once
    per step. An optimizer's own, which its closure makes long, ends within the next step.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, -span.end_ns))
    steps = [span for span in ordered if span.name.startswith(STEP_MARK)]
    across: dict[str, set[int]] = {}  # in which steps a range began that was open at their ends
    never_closed: dict[str, str] = {}
    for number, step in enumerate(steps):
        for span in ordered:
            if span is not step and step.start_ns <= span.start_ns < step.end_ns <= span.end_ns:
                kind = _NUMBERS.sub("", span.name)
                across.setdefault(kind, set()).add(number)
                if span.end_ns == step.end_ns:
                    never_closed.setdefault(kind, span.name)
    once = 0 if len(steps) < 2 else len(steps)  # a single step does not show what every step does
    return tuple(
        name
        for kind, name in never_closed.items()
        if len(across[kind]) != once and not name.startswith(_OPTIMIZER_STEP)
    )


def list_spans(roots: Iterable[Any]) -> Iterator[RangeSpan]:
    """List the steps of a tree of torch's events (`experimental_event_tree`), and the ranges open at their ends."""
    for step in roots:
        if not step.name.startswith(STEP_MARK):
            continue
        level = [step]
        while level:
            yield from (RangeSpan(event.name, event.start_time_ns, event.end_time_ns) for event in level)
            level = [child for event in level for child in event.children if child.end_time_ns >= step.end_time_ns]
