"""In which nn.Module an op ran, as a path: `BertModel_0/BertEncoder_0/BertLayer_3`."""

import re

import numpy as np

from perfkit.trace.nesting import around_times, depths, grouped, parents
from perfkit.trace.read import NONE, Category, Ints, Trace

_PYTHON = "nn.Module: "

# Ranges that name a module: FSDP's hooks give the path within the model, wrappers their own class.
_RANGES = (
    re.compile(r"FSDP::(?:pre|post)_(?:forward|backward)\w* \((?P<path>[\w.]+)\)"),
    re.compile(r"(?P<path>DistributedDataParallel|FullyShardedDataParallel|DeepSpeedEngine)\.forward"),
    re.compile(r"(?:nn\.)?[Mm]odule: (?P<path>[\w.]+)"),
    re.compile(r"(?P<path>(?:[A-Za-z_]\w*\.)+\d+(?:\.\w+)*)"),
)


def find_modules(trace: Trace, event: Ints, forward: Ints) -> tuple[Ints, list[str]]:
    """For each op (rows in the order of time) the index of its module's path, NONE where none is known, and the paths.

    From Python stacks where those were recorded, else from ranges that name modules. A backward op
    belongs to the module of its `forward` op.
    """
    labels = {index: name.removeprefix(_PYTHON) for index, name in enumerate(trace.names) if name.startswith(_PYTHON)}
    calls = _named(trace, trace.of(Category.PYTHON), labels)
    threads = trace.thread[event]
    if len(calls):
        # Some versions number Python's threads on their own, so that they match no thread of an op.
        if not np.isin(trace.thread[calls], threads).any():
            trace_thread = int(np.bincount(trace.thread[calls]).argmax())
            calls = calls[trace.thread[calls] == trace_thread]
            threads = np.full(len(event), trace_thread, np.int32)
    else:
        labels = _range_labels(trace)
        calls = _named(trace, trace.of(Category.RANGE), labels)
    if not len(calls):
        return np.full(len(event), NONE, np.int64), []
    parent = parents(trace, calls)
    path, paths = _paths(trace, calls, parent, labels)
    at = around_times(trace, calls, threads, trace.start_ns[event], parent)
    module = np.where(at == NONE, NONE, path[at])
    of_forward = np.where(forward == NONE, NONE, module[forward])
    return np.where(of_forward == NONE, module, of_forward), paths


def _named(trace: Trace, events: Ints, labels: dict[int, str]) -> Ints:
    return events[np.isin(trace.name[events], list(labels))] if labels else events[:0]


def _range_labels(trace: Trace) -> dict[int, str]:
    found = {}
    for index, name in enumerate(trace.names):
        match = next((match for pattern in _RANGES if (match := pattern.fullmatch(name))), None)
        if match is not None:
            found[index] = match["path"]
    return found


def _paths(trace: Trace, calls: Ints, parent: Ints, labels: dict[int, str]) -> tuple[Ints, list[str]]:
    """For each call the index of its path, and the paths: that of what it lies in, then its own name."""
    numbers: dict[tuple[int, int], int] = {}
    paths: list[str] = []
    result = np.full(len(calls), NONE, np.int64)
    depth = depths(parent)
    order = grouped(depth)
    width = len(trace.names) + 1
    for rows in np.split(order, np.cumsum(np.bincount(depth))[:-1]):
        outer = np.where(parent[rows] == NONE, NONE, result[parent[rows]])
        pair, inverse = np.unique((outer + 1) * width + trace.name[calls[rows]], return_inverse=True)
        found = []
        for each in pair.tolist():
            key = (each // width - 1, each % width)
            if key not in numbers:
                numbers[key] = len(paths)
                label = labels[key[1]]
                # A wrapper's range or a module that calls itself adds nothing to the path.
                above = paths[key[0]] if key[0] != NONE else ""
                paths.append(above if above.split("/")[-1] == label else f"{above}/{label}".lstrip("/"))
            found.append(numbers[key])
        result[rows] = np.asarray(found, np.int64)[inverse]
    return _completed(result, paths)


def _completed(path: Ints, paths: list[str]) -> tuple[Ints, list[str]]:
    """Paths that begin within the model (run again by a checkpoint) continued to its root, and equal ones as one.

    Python's names number the instances of a class, so that a module that lies in one place elsewhere is the same.
    """
    places: dict[str, set[str]] = {}
    for each in paths:
        above, _, last = each.rpartition("/")
        if above:
            places.setdefault(last, set()).add(above)
    whole: dict[str, int] = {}
    renumbered = []
    for each in paths:
        first = each.split("/")[0]
        within = places.get(first, set())
        full = f"{next(iter(within))}/{each}" if len(within) == 1 else each
        renumbered.append(whole.setdefault(full, len(whole)))
    return np.asarray(renumbered, np.int64)[path], list(whole)
