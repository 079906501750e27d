"""Modules of fake tensors are converted and copied as those of real ones."""

import copy
import weakref

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from perfkit.plan.rehearsal.conversion import convert_fakes, copy_fakes


def test_a_module_is_converted_in_place() -> None:
    with FakeTensorMode(), convert_fakes():
        layer = nn.Linear(2, 3)
        weight = layer.weight
        watched = weakref.ref(weight)
        layer.to(torch.bfloat16)
    assert layer.weight is weight is watched()
    assert layer.weight.dtype == torch.bfloat16


def test_a_copy_is_of_the_same_mode_and_has_storages_of_its_own() -> None:
    with FakeTensorMode() as mode, copy_fakes():
        layer = nn.Linear(2, 3)
        copied = copy.deepcopy(layer)
    for ours, theirs in zip(layer.parameters(), copied.parameters(), strict=True):
        assert isinstance(theirs, FakeTensor)
        assert isinstance(theirs, nn.Parameter)
        assert theirs.requires_grad
        assert theirs.fake_mode is mode
        assert theirs.untyped_storage()._cdata != ours.untyped_storage()._cdata


def test_what_is_tied_stays_tied_in_a_copy() -> None:
    with FakeTensorMode(), copy_fakes():
        layers = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
        layers[1].weight = layers[0].weight
        copied = copy.deepcopy(layers)
    assert copied[1].weight is copied[0].weight is not layers[0].weight


def test_a_buffer_that_is_a_constant_is_copied_with_its_value() -> None:
    """Batch norm counts its batches in one."""
    with FakeTensorMode(), copy_fakes():
        norm = nn.BatchNorm1d(2)
        copied = copy.deepcopy(norm)
        norm.num_batches_tracked.add_(1)
        counted = copied.num_batches_tracked
        assert counted is not None
        assert counted.item() == 0
