"""Tests of what is alive and compiled begin without what other tests left in cycles and caches."""

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _thawed() -> Iterator[None]:
    """What the tests of a file froze they share: a collection then walks only what the last test made."""
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _nothing_left(_thawed: None) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    # What is still alive then is held by C++, which nobody can tell from a model of the test: frozen objects are not
    # among those of `gc.get_objects`.
    gc.freeze()
