"""A host store without contents: fake tensors have no bytes to copy."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple
from unittest.mock import patch

import torch

from perfkit.techniques.activations.paging import HostStore


class FakeHostPage(NamedTuple):
    """Simulated bytes on the host, identified by `number`."""

    number: int
    nbytes: int


class FakeHost:
    """The host of a GPU. `told` receives each page copied there (`out`) or back."""

    def __init__(self) -> None:
        self.told: Callable[[FakeHostPage, bool], None] = lambda _page, _out: None
        self._numbers = count()

    @contextmanager
    def skip_copies(self) -> Iterator[None]:
        """Make host stores return pages without bytes inside this context, and restore storage sizes."""

        def put(_: HostStore, data: torch.Tensor) -> FakeHostPage:
            page = FakeHostPage(next(self._numbers), data.numel())
            self.told(page, True)
            return page

        def get(_: HostStore, page: FakeHostPage, into: torch.UntypedStorage) -> None:
            into.resize_(page.nbytes)
            self.told(page, False)

        instead: dict[str, Any] = {"__init__": lambda *_: None, "put": put, "get": get, "close": lambda _: None}
        with patch.multiple(HostStore, **instead):
            yield
