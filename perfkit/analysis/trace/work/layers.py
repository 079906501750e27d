"""Layers of a model that differ only by number, as one module."""

import re

import numpy as np

from perfkit.trace.model import Small

# Modules of a class are numbered: `Layer_3/Linear_7`, `layers.3.linear`.
_NUMBERS = re.compile(r"_\d+(?=/|$)|(?<=\.)\d+(?=\.|$)")


def merge_layers(modules: list[str]) -> tuple[list[str], Small]:
    """The modules without the numbers of their layers, and for each which one it is."""
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(_NUMBERS.sub("", path), len(numbers)) for path in modules]
    return list(numbers), np.asarray(of, np.int32)
