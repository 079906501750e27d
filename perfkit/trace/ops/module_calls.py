"""Finds the nn.Module of an op, as a path: `BertModel_0/BertEncoder_0/BertLayer_3`."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfkit.trace.event_names import map_names
from perfkit.trace.event_nesting import compute_depths, find_around_times, find_nearest, find_parents, sort_by_group
from perfkit.trace.model import NONE, Category, Ints, Trace

_PYTHON = "nn.Module: "

# No model nests deeper; deeper recursion belongs to the last level.
_MOST_LEVELS = 64

# Ranges that name a module: FSDP's hooks give the path within the model, wrappers their own class.
_RANGES = (
    re.compile(r"FSDP::(?:pre|post)_(?:forward|backward)\w* \((?P<path>[\w.]+)\)"),
    re.compile(r"(?P<path>DistributedDataParallel|FullyShardedDataParallel|DeepSpeedEngine)\.forward"),
    re.compile(r"(?:nn\.)?[Mm]odule: (?P<path>[\w.]+)"),
    re.compile(r"(?P<path>(?:[A-Za-z_]\w*\.)+\d+(?:\.\w+)*)"),
)


@dataclass(frozen=True)
class ModuleCalls:
    """Calls of modules (events in the order of time), the index of the path of each, and the paths."""

    calls: Ints
    parent: Ints
    path: Ints
    paths: list[str]

    def locate_modules(self, trace: Trace, threads: NDArray[np.int32], times: Ints) -> Ints:
        """The index of the path of the innermost module that each thread was in at a time, NONE where in none."""
        if not len(self.calls):
            return np.full(len(times), NONE, np.int64)
        own = trace.thread[self.calls]
        if not np.isin(own, threads).any():
            # Some versions number Python's threads on their own, so that they match no thread of an op: all is taken
            # to have been called from the one with most calls.
            threads = np.full(len(times), int(np.bincount(own).argmax()), np.int32)
        at = find_around_times(trace, self.calls, threads, times, self.parent)
        return np.where(at == NONE, NONE, self.path[at])


def find_modules(trace: Trace) -> ModuleCalls:
    """The calls of modules: from Python stacks where those were recorded, else from ranges that name modules."""
    calls, labels = map_names(trace, trace.select_events(Category.PYTHON), _parse_call_label)
    if not len(calls):
        calls, labels = map_names(trace, trace.select_events(Category.RANGE), _parse_range_label)
    parent = find_parents(trace, calls)
    return ModuleCalls(calls, parent, *_build_paths(trace, calls, parent, labels))


def _parse_call_label(name: str) -> str | None:
    return name.removeprefix(_PYTHON) if name.startswith(_PYTHON) else None


def _parse_range_label(name: str) -> str | None:
    match = next((match for pattern in _RANGES if (match := pattern.fullmatch(name))), None)
    return None if match is None else match["path"]


def _build_paths(trace: Trace, calls: Ints, parent: Ints, labels: dict[int, str]) -> tuple[Ints, list[str]]:
    """The path index of each call, and the paths: the enclosing path plus its own name."""
    numbers: dict[tuple[int, int], int] = {}
    paths: list[str] = []
    result = np.full(len(calls), NONE, np.int64)
    depth = compute_depths(parent)
    order = sort_by_group(depth)
    width = len(trace.names) + 1
    levels = np.split(order, np.cumsum(np.bincount(depth))[:-1]) if len(calls) else []
    for rows in levels[:_MOST_LEVELS]:
        outer = np.where(parent[rows] == NONE, NONE, result[parent[rows]])
        pair, inverse = np.unique((outer + 1) * width + trace.name[calls[rows]], return_inverse=True)
        path_numbers = []
        for code in pair.tolist():
            key = (code // width - 1, code % width)
            if key not in numbers:
                numbers[key] = len(paths)
                label = labels[key[1]]
                # A wrapper's range or a module that calls itself adds nothing to the path.
                above = paths[key[0]] if key[0] != NONE else ""
                paths.append(above if above.split("/")[-1] == label else f"{above}/{label}".lstrip("/"))
            path_numbers.append(numbers[key])
        result[rows] = np.asarray(path_numbers, np.int64)[inverse]
    deeper = depth >= _MOST_LEVELS
    if deeper.any():
        result[deeper] = result[find_nearest(parent, ~deeper)[deeper]]
    return _extend_paths_to_root(result, paths)


def _extend_paths_to_root(path: Ints, paths: list[str]) -> tuple[Ints, list[str]]:
    """Paths that begin within the model (run again by a checkpoint) continued to its root, and equal ones as one.

    Python's names number the instances of a class, so that a module that lies in one place elsewhere is the same.
    """
    places: dict[str, set[str]] = {}
    for name in paths:
        above, _, last = name.rpartition("/")
        if above:
            places.setdefault(last, set()).add(above)
    whole: dict[str, int] = {}
    renumbered = []
    for name in paths:
        first = name.split("/")[0]
        within = places.get(first, set())
        full = f"{next(iter(within))}/{name}" if len(within) == 1 else name
        renumbered.append(whole.setdefault(full, len(whole)))
    return np.asarray(renumbered, np.int64)[path], list(whole)
