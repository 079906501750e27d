"""Finds the program's source lines in recorded Python stacks."""

import re
import sys

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_names import map_names
from perfkit.trace.event_nesting import find_around_times
from perfkit.trace.memory.text_numbers import TraceTextNumbers
from perfkit.trace.model import Category, Ints, Trace

# As Kineto names calls of Python: the path beneath where it was imported from, the line of the function, its name.
_CALL = re.compile(r"(?P<path>[^()]+\.py)\((?P<line>\d+)\): (?P<function>.+)")
_PACKAGES = re.compile(r".*(?:site|dist)-packages/|.*/lib/python\d[\d.]*/")


def find_lines(trace: Trace, threads: NDArray[np.int32], times: Ints, table: TraceTextNumbers) -> NDArray[np.int32]:
    """For moments on threads, the innermost function outside torch and Python's library, as a number in the table:
    `model.py:120 forward`, with the function's line. 0 where unknown.
    """
    calls, lines = map_names(trace, trace.select_events(Category.PYTHON), parse_line)
    if not len(calls):
        return np.zeros(len(times), np.int32)
    own = trace.thread[calls]
    if not np.isin(own, threads).any():  # see Modules.at
        threads = np.full(len(times), int(np.bincount(own).argmax()), np.int32)
    at = find_around_times(trace, calls, threads, times)
    numbers = np.zeros(len(trace.names) + 1, np.int32)
    for name, line in lines.items():
        numbers[name] = table.number(line)
    innermost: NDArray[np.int32] = np.where(at < 0, 0, numbers[trace.name[calls[at]]]).astype(np.int32)
    return innermost


def parse_line(name: str) -> str | None:
    """The line of a call by its name in the trace; None outside the program's own code."""
    match = _CALL.fullmatch(name)
    if match is None:
        return None
    path = _PACKAGES.sub("", match["path"].replace("\\", "/"))
    first = path.split("/")[0].removesuffix(".py")
    if first in ("torch", "perfkit", "perfkit_cli") or first in sys.stdlib_module_names or path.startswith("<"):
        return None
    return f"{path.rsplit('/', 1)[-1]}:{match['line']} {match['function']}"
