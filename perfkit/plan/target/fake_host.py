"""A host store without contents: fake tensors have no bytes to copy."""

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any
from unittest.mock import patch

import torch

from perfkit.core.note import Note, make_note
from perfkit.core.units import format_bytes
from perfkit.techniques.activations.paging import HostStore


@dataclass(frozen=True)
class FakeHostPage:
    """Simulated bytes on the host, identified by `number`."""

    number: int
    nbytes: int


class FakeHost:
    """The host of a GPU. `told` receives each page copied there (`out`) or back.

    `pageable_bytes` is other memory that it needs.
    """

    def __init__(self) -> None:
        self.told: Callable[[FakeHostPage, bool], None] = lambda _page, _out: None
        self.pageable_bytes = 0
        self._numbers = count()
        self._kept: Counter[int] = Counter()  # pages by the size of their block
        self._most: Counter[int] = Counter()

    @property
    def pinned_bytes(self) -> int:
        """Pinned memory that the pages take: torch rounds a block up to a power of two, and keeps it for other pages
        of its size (CachingHostAllocatorImpl, ATen/core/CachingHostAllocator.h)."""
        return sum(size * number for size, number in self._most.items())

    def list_notes(self) -> tuple[Note, ...]:
        """A note on the memory that the host needs, if any."""
        if not self.pinned_bytes:
            return ()
        other = f" and {format_bytes(self.pageable_bytes)} of pageable" if self.pageable_bytes else ""
        text = f"{format_bytes(self.pinned_bytes)} of pinned{other} host memory per rank hold what is offloaded"
        return (make_note("plan.host_memory", text, bytes=self.pinned_bytes + self.pageable_bytes),)

    @contextmanager
    def skip_copies(self) -> Iterator[None]:
        """Make host stores return pages without bytes inside this context, and restore storage sizes."""

        def put(_: HostStore, data: torch.Tensor) -> FakeHostPage:
            page = FakeHostPage(next(self._numbers), data.numel())
            self._keep(page, page.nbytes)
            self.told(FakeHostPage(page.number, page.nbytes), True)
            return page

        def get(_: HostStore, page: FakeHostPage, into: torch.UntypedStorage) -> None:
            into.resize_(page.nbytes)
            self.told(FakeHostPage(page.number, page.nbytes), False)

        instead: dict[str, Any] = {"__init__": lambda *_: None, "put": put, "get": get, "close": lambda _: None}
        with patch.multiple(HostStore, **instead):
            yield

    def pin(self, storage: torch.UntypedStorage) -> None:
        """Count a storage in pinned memory until it is freed."""
        self._keep(storage, storage.nbytes())

    def record_copy(self, nbytes: int, *, out: bool) -> None:
        """Record a copy of pinned memory that is not a page of a store."""
        self.told(FakeHostPage(next(self._numbers), nbytes), out)

    def _keep(self, page: object, nbytes: int) -> None:
        """Count a page until nothing refers to it."""
        size = 1 << max(nbytes - 1, 0).bit_length()
        self._kept[size] += 1
        self._most[size] = max(self._most[size], self._kept[size])
        weakref.finalize(page, self._kept.subtract, {size: 1})
