"""How many samples a step trains on, as far as somebody else's loop shows it."""

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

import torch

# Batches are nested at most so deep in tuples, lists and mappings.
_DEEPEST = 4


class Units(NamedTuple):
    """Units of a step (0 where they are not known), what they are, and where that is from."""

    per_step: int
    unit: str
    source: str


def leading(value: Any, depth: int = 0) -> int:
    """The size of the first dimension of the first tensor in a batch; 0 where there is none."""
    if isinstance(value, torch.Tensor):
        return int(value.shape[0]) if value.dim() else 0
    if depth == _DEEPEST:
        return 0
    inside: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    return next((size for size in (leading(part, depth + 1) for part in inside) if size), 0)


def units_of(fetched: list[int], given: list[int], *, stated: float | None, unit: str) -> Units:
    """The units of a step.

    Args:
        fetched: for each step the samples in the batches that DataLoaders gave.
        given: for each step the samples that the model was called with in training; empty where there are several.
        stated: what the user says; goes before all others.
        unit: what the user calls them.
    """
    if stated is not None:
        return Units(round(stated), unit, "stated by the user")
    for series, source in (
        (fetched, "counted: first dimension of the first tensor of each batch that a DataLoader gave"),
        (given, "counted: first dimension of the first tensor that the model was called with"),
    ):
        if series and median(series) > 0:
            return Units(round(median(series)), "samples", source)
    return Units(0, unit, "not known: no DataLoader was used, and no one model was seen being called with a tensor")
