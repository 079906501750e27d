"""Reads of values, and the frames that they are found in."""

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from perfkit.plan.rehearsal.module_locator import ModuleLocator
from perfkit.plan.rehearsal.value_reads import ValueReads


class Reader(nn.Module):
    """Reads a value while it has a tensor, and drops that."""

    def __init__(self, reads: ValueReads) -> None:
        super().__init__()
        self._reads = reads

    def forward(self) -> object:
        tensor = torch.ones(3)
        dropped = weakref.ref(tensor)
        self._reads.record_read()
        del tensor
        return dropped()


@pytest.fixture
def _without_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_without_collection")
def test_a_read_keeps_no_tensor_that_its_callers_drop() -> None:
    places = ModuleLocator()
    reads = ValueReads(places)
    model = places.model = nn.Sequential(Reader(reads))
    assert model[0]() is None
    assert [note.figures["module"] for note in reads.assumptions()] == ["0 (Reader)"]


@pytest.mark.usefixtures("_without_collection")
def test_a_read_leaves_no_cycle_with_its_callers() -> None:
    reads = ValueReads(ModuleLocator())

    def read() -> weakref.ref[torch.Tensor]:
        tensor = torch.ones(3)
        reads.record_read()
        return weakref.ref(tensor)

    assert read()() is None
