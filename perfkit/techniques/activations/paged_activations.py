"""Activations on their way out and back: hooks on what autograd saves."""

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import nn

from perfkit.cost.torch_fakes import FakeTensor
from perfkit.techniques.activations.paging import MIN_BYTES, Store, StoredPage, view_as_bytes


class _SavedView(NamedTuple):
    """A view to be made again over a stored storage."""

    storage: "_StoredStorage"
    dtype: torch.dtype
    offset: int
    shape: torch.Size
    stride: tuple[int, ...]


class _StoredStorage:
    """A storage that was moved out. While it is back, those who need it share it."""

    def __init__(self, store: Store, tensor: torch.Tensor) -> None:
        self.store = store
        self.device = tensor.device  # not the storage's: that of a fake tensor is on none
        self.page: StoredPage = store.put(view_as_bytes(tensor.untyped_storage()))
        self.loaded: Callable[[], torch.UntypedStorage | None] = lambda: None


class ActivationPager:
    """Moves each storage that autograd saves to a store once, and back when the backward pass asks for it.

    `store_for` names the store for tensors of a dtype, None where they stay. Parameters and their views stay where they
    are, as do other devices' tensors, subclasses and small tensors.
    """

    def __init__(self, store_for: Callable[[torch.dtype], Store | None], device: torch.device) -> None:
        self._store_for = store_for
        self._device = device
        # By the storage's object id; the reference tells whether it is still the same one. Only autograd keeps what was
        # stored, until backward has used it.
        self._stored: dict[int, tuple[weakref.ref[torch.UntypedStorage], int, weakref.ref[_StoredStorage]]] = {}
        # moving storages is not for torch.compile to trace
        self._hooks = torch.compiler.disable(self._pack_tensor), torch.compiler.disable(self._unpack_tensor)

    def make_hooks(self) -> AbstractContextManager[object]:
        """The context to run a forward pass in."""
        self._stored.clear()
        return torch.autograd.graph.saved_tensors_hooks(*self._hooks)

    def _pack_tensor(self, tensor: torch.Tensor) -> torch.Tensor | _SavedView:
        store = self._store_for(tensor.dtype) if self._is_moved(tensor) else None
        if store is None:
            return tensor
        storage = tensor.untyped_storage()
        known = self._stored.get(storage._cdata)
        stored = None if known is None or known[0]() is not storage or known[1] != tensor._version else known[2]()
        if stored is None:
            stored = _StoredStorage(store, tensor)
            self._stored[storage._cdata] = weakref.ref(storage), tensor._version, weakref.ref(stored)
        return _SavedView(stored, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride())

    def _is_moved(self, tensor: torch.Tensor) -> bool:
        return (
            type(tensor) in (torch.Tensor, FakeTensor)
            and not isinstance(tensor, nn.Parameter)  # fake tensors are, without a type of their own
            and tensor.device.type == self._device.type
            and tensor.layout == torch.strided
            and not isinstance(tensor._base, nn.Parameter)
            and tensor.untyped_storage().nbytes() >= MIN_BYTES
        )

    def _unpack_tensor(self, saved: torch.Tensor | _SavedView) -> torch.Tensor:
        if isinstance(saved, torch.Tensor):
            return saved
        view = torch.empty(0, dtype=saved.dtype, device=saved.storage.device)
        return view.set_(self._load_storage(saved.storage), saved.offset, saved.shape, saved.stride)

    def _load_storage(self, stored: _StoredStorage) -> torch.UntypedStorage:
        shared = stored.loaded()
        if shared is not None:
            return shared
        storage = torch.empty(0, dtype=torch.uint8, device=stored.device).untyped_storage()
        stored.store.get(stored.page, storage)
        stored.loaded = weakref.ref(storage)
        return storage
