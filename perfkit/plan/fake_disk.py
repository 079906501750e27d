"""A disk store that writes nothing: fake tensors have no bytes to write."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch

from perfkit.techniques.paging import DiskPage, DiskStore, Page


@contextmanager
def nothing_written() -> Iterator[None]:
    """Disk stores hand out pages without files while entered, and give storages their size back."""
    with patch.multiple(DiskStore, put=_put, get=_get):
        yield


def _put(store: DiskStore, data: torch.Tensor) -> DiskPage:
    return DiskPage(store.folder / "unwritten", data.numel())


def _get(_: DiskStore, page: Page, into: torch.UntypedStorage) -> None:
    into.resize_(page.nbytes)
