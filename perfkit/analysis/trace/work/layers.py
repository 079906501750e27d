"""Layers of a model that differ only by number, as one module."""

import re

import numpy as np

from perfkit.analysis.trace.time.grouping import RowGroups
from perfkit.trace.compact_ints import Compact
from perfkit.trace.model import NONE, Ints, Small

# Modules of a class are numbered: `Layer_3/Linear_7` becomes `Layer/Linear`, `layers.3.linear` `layers.*.linear`.
_OF_LIST, _OF_CLASS = re.compile(r"(?<=\.)\d+(?=\.|$)"), re.compile(r"_\d+(?=/|$)")


def merge_layers(modules: list[str]) -> tuple[list[str], Small]:
    """The modules without the numbers of their layers, and for each which one it is."""
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(_OF_CLASS.sub("", _OF_LIST.sub("*", path)), len(numbers)) for path in modules]
    return list(numbers), np.asarray(of, np.int32)


def name_group_modules(groups: RowGroups, module: Compact, busy_ns: Ints, modules: list[str]) -> list[str]:
    """The module of most of each group's time, without layer numbers: `PATH`, of several `PATH and 2 more`.

    `module` is each row's place in `modules`, NONE without one. Empty for groups without any.
    """
    labels, classes = merge_layers(modules)
    of_row = np.append(classes, np.int32(NONE))[module]
    known = np.flatnonzero(of_row != NONE)
    names = [""] * len(groups)
    if not len(known):
        return names
    pairs, pair = np.unique(groups.of[known].astype(np.int64) * len(labels) + of_row[known], return_inverse=True)
    spent = np.bincount(pair, weights=busy_ns[known])
    group, label = pairs // len(labels), pairs % len(labels)
    several = np.bincount(group, minlength=len(groups))
    order = np.lexsort((spent, group))
    last = order[np.append(group[order][1:] != group[order][:-1], True)]
    for place in last.tolist():
        others = int(several[group[place]]) - 1
        names[group[place]] = labels[label[place]] + (f" and {others} more" if others else "")
    return names
