"""Tensors that are held for a purpose that Python's objects tell."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

from perfkit.core.allocations import BUFFER, INPUT, OPTIMIZER_STATE, PARAMETER
from perfkit.instruments.memory.holders import find_held_tensors


def told(tensor: torch.Tensor) -> list[tuple[str, str]]:
    return [(category, name) for category, name, each in find_held_tensors() if each is tensor]


def named(tensor: torch.Tensor) -> list[tuple[str, str, str]]:
    """Each category, with the first and the last word of the name."""
    return [(category, name.split()[0], name.split()[-1]) for category, name in told(tensor)]


def test_modules_that_nobody_trains() -> None:
    average = AveragedModel(nn.Linear(2, 3))
    normed = nn.BatchNorm1d(3)
    assert named(average.module.weight) == [(PARAMETER, "weight", "Linear")]
    assert named(normed.running_mean) == [(BUFFER, "running_mean", "BatchNorm1d")]


def test_a_module_whose_constructor_failed() -> None:
    class Unfinished(nn.Module):
        def __init__(self) -> None:
            self.__dict__["parent"] = None

    module = Unfinished()
    assert list(find_held_tensors()) is not None
    assert module.parent is None


def test_optimizers_that_hold_what_no_module_does() -> None:
    leaf = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([leaf], lr=0.1, momentum=0.9)
    leaf.sum().backward()
    optimizer.step()
    optimizer.state[leaf]["history"] = [torch.ones(2)]
    [(category, name)] = told(leaf)
    assert (category, "SGD" in name) == (PARAMETER, True)
    assert told(optimizer.state[leaf]["momentum_buffer"]) == [(OPTIMIZER_STATE, "held by SGD")]
    assert told(optimizer.state[leaf]["history"][0]) == [(OPTIMIZER_STATE, "held by SGD")]


def test_data_in_memory_also_where_the_loader_is_gone() -> None:
    inputs = torch.zeros(8, 2)
    batches = iter(DataLoader(Subset(ConcatDataset([TensorDataset(inputs)]), [1, 2, 3]), batch_size=2))
    next(batches)
    assert (INPUT, "held", "TensorDataset") in named(inputs)


def test_a_dataset_of_a_kind_of_its_own() -> None:
    samples = [{"x": torch.zeros(2)} for _ in range(4)]
    loader = DataLoader(samples, batch_size=2)
    assert named(samples[3]["x"]) == [(INPUT, "held", "list")]
    assert len(loader) == 2
