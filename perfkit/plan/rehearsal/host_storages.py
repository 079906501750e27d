"""Tells which storages of fake tensors are in the memory of a GPU's host, though all are on a CPU."""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch.optim import Optimizer

from perfkit.instruments.training.tensors import get_address, list_optimizer_tensors, list_plain_parts
from perfkit.plan.rehearsal.fake_results import FakeArgument
from perfkit.techniques.activations.paged_tensors import get_local_part


class HostStorages:
    """The addresses of live storages that were moved to the host, and of all that is computed from them."""

    def __init__(self) -> None:
        self._addresses: set[int] = set()
        self._copies_to_device = False

    def __contains__(self, address: int) -> bool:
        return address in self._addresses

    def add(self, storage: torch.UntypedStorage) -> None:
        """Add a storage until it is freed."""
        address = get_address(storage)
        if address not in self._addresses:
            self._addresses.add(address)
            weakref.finalize(storage, self._addresses.discard, address)

    def compute(self, given: Sequence[FakeArgument]) -> bool:
        """True if the host computes an op with these tensors: devices mix only with scalars."""
        if not self._addresses or self._copies_to_device:
            return False
        here = [argument.address in self._addresses for argument in given if argument.tensor.dim()]
        return bool(here) and all(here)

    def sum_state_bytes(self, optimizers: Sequence[Optimizer]) -> int:
        """Bytes of optimizer state on the host."""
        tensors = (get_local_part(tensor) for _, tensor in list_optimizer_tensors(optimizers))
        storages = [part.untyped_storage() for tensor in tensors for part in list_plain_parts(tensor)]
        return sum(storage.nbytes() for storage in storages if get_address(storage) in self._addresses)

    @contextmanager
    def copy_to_device(self) -> Iterator[None]:
        """Make results of the host's tensors on the device inside this context."""
        self._copies_to_device = True
        try:
            yield
        finally:
            self._copies_to_device = False
