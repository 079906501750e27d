"""A disk store without files, which reports the pages it would move: fake tensors have no bytes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import torch

from perfkit.techniques.activations.paging import DiskPage, DiskStore, StoredPage


@contextmanager
def skip_disk_writes() -> Iterator[None]:
    """Make disk stores return pages without files inside this context, and restore storage sizes."""
    with patch.multiple(DiskStore, put=_make_unwritten_page, get=_restore_size):
        yield


def _make_unwritten_page(store: DiskStore, data: torch.Tensor) -> DiskPage:
    return DiskPage(store.folder / "unwritten", data.numel())


def _restore_size(_: DiskStore, page: StoredPage, into: torch.UntypedStorage) -> None:
    into.resize_(page.nbytes)


class PageMove(NamedTuple):
    """Bytes written to a file in a folder (`writes`) or read from one."""

    bytes: int
    writes: bool
    folder: Path


@contextmanager
def watch_pages(told: Callable[[PageMove], None]) -> Iterator[None]:
    """Call `told` with every page that a disk store writes or reads inside this context."""
    original_put, original_get = DiskStore.put, DiskStore.get

    def put(store: DiskStore, data: torch.Tensor) -> DiskPage:
        told(PageMove(data.numel(), True, store.folder))
        return original_put(store, data)

    def get(store: DiskStore, page: StoredPage, into: torch.UntypedStorage) -> None:
        told(PageMove(page.nbytes, False, store.folder))
        original_get(store, page, into)

    with patch.multiple(DiskStore, put=put, get=get):
        yield
