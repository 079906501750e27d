"""Long-lived tensors whose memory is given up while they are not needed: optimizer state and parameters."""

import torch

from perfkit.techniques.activations.paging import Store, StoredPage, view_as_bytes


class PagedTensor:
    """A tensor that is either in memory or in a store, and stays the same object.

    While it is out its storage has size 0, so that every view and everything autograd saved of it comes back with it.
    """

    def __init__(self, tensor: torch.Tensor, store: Store) -> None:
        self._storage = get_local_part(tensor).untyped_storage()
        self._store = store
        self._page: StoredPage | None = None

    @property
    def is_out(self) -> bool:
        return self._storage.nbytes() == 0

    def page_in(self) -> None:
        """Bring the bytes back, if they are out."""
        if self.is_out:
            assert self._page is not None
            self._store.get(self._page, self._storage)

    def page_out(self) -> None:
        """Free the memory; the bytes are written unless the store has them as they are."""
        if not self.is_out:
            if self._page is None:
                self._page = self._store.put(view_as_bytes(self._storage))
            self._storage.resize_(0)

    def mark_changed(self) -> None:
        """Say that the bytes in memory are new, so that the stored ones are stale."""
        self._page = None


def get_local_part(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor or of a parameter that DeepSpeed has sharded; any other tensor as it is.

    Shares the storage.
    """
    shard: torch.Tensor | None = getattr(tensor, "ds_tensor", None)
    if shard is not None:
        return shard.detach()
    to_local = getattr(tensor, "to_local", None)
    local: torch.Tensor = tensor if to_local is None else to_local()
    if hasattr(local, "__tensor_flatten__") and not local.requires_grad:
        return local  # torchao's states copy their table when they are detached
    return local.detach()
