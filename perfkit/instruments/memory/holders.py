"""Finds tensors with a known purpose outside the training state, among Python's objects.

Frozen models and weight averages are modules that no optimizer updates; datasets may be in memory; optimizers may be
stepped in custom ways.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

from perfkit.core.allocations import BUFFER, INPUT, OPTIMIZER_STATE, PARAMETER
from perfkit.instruments.training.live_objects import find_instances

# Maximum nesting of datasets and containers (splits of a concatenation), and maximum items checked per container.
_DEEPEST = 5
_MOST = 100_000

Held = tuple[str, str, torch.Tensor]


def find_held_tensors() -> Iterator[Held]:
    """Category, name and tensor for everything that modules, optimizers and datasets hold."""
    for item in find_instances(nn.Module, Optimizer, Dataset, DataLoader):
        kind = type(item)
        if issubclass(kind, nn.Module):
            yield from _list_module_tensors(item)
        elif issubclass(kind, Optimizer):
            yield from _list_optimizer_tensors(item)
        elif issubclass(kind, Dataset):
            yield from _list_dataset_tensors(item)
        elif issubclass(kind, DataLoader):  # its dataset may be no `Dataset`
            yield from _list_dataset_tensors(item.__dict__.get("dataset"))


def _list_module_tensors(module: nn.Module) -> Iterator[Held]:
    for category, attribute in ((PARAMETER, "_parameters"), (BUFFER, "_buffers")):
        for name, tensor in (module.__dict__.get(attribute) or {}).items():
            if isinstance(tensor, torch.Tensor):
                yield category, f"{name} of an untrained {type(module).__name__}", tensor


def _list_optimizer_tensors(optimizer: Optimizer) -> Iterator[Held]:
    kind = type(optimizer).__name__
    for group in optimizer.__dict__.get("param_groups", ()):
        for parameter in group["params"]:
            if isinstance(parameter, torch.Tensor):
                yield PARAMETER, f"a parameter of {kind}, outside any module", parameter
    for state in optimizer.__dict__.get("state", {}).values():
        for tensor in _find_inside(state, 0):
            yield OPTIMIZER_STATE, f"held by {kind}", tensor


def _list_dataset_tensors(dataset: Any) -> Iterator[Held]:
    for tensor in _find_inside(dataset, 0):
        yield INPUT, f"held by the dataset, a {type(dataset).__name__}", tensor


def _find_inside(value: Any, depth: int) -> Iterator[torch.Tensor]:
    """The tensors in datasets, tuples, lists and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
        return
    inside: Iterable[Any] = ()
    if issubclass(type(value), Dataset):
        inside = vars(value).values()
    elif isinstance(value, Mapping):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    if depth < _DEEPEST:
        for part in islice(inside, _MOST):
            yield from _find_inside(part, depth + 1)
