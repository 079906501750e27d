"""A disk store that writes nothing, as fake tensors have no bytes to write, and what it would have moved."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
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


class Paging(NamedTuple):
    """Bytes that go to a file in a folder (`writes`), or come from one."""

    bytes: int
    writes: bool
    folder: Path


@contextmanager
def watched_pages(told: Callable[[Paging], None]) -> Iterator[None]:
    """`told` is called with every page that a disk store writes or reads while entered."""
    original_put, original_get = DiskStore.put, DiskStore.get

    def put(store: DiskStore, data: torch.Tensor) -> DiskPage:
        told(Paging(data.numel(), True, store.folder))
        return original_put(store, data)

    def get(store: DiskStore, page: Page, into: torch.UntypedStorage) -> None:
        told(Paging(page.nbytes, False, store.folder))
        original_get(store, page, into)

    with patch.multiple(DiskStore, put=put, get=get):
        yield
