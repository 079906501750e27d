"""Tests of what is alive and compiled begin without what other tests left in cycles and caches."""

import gc

import pytest
import torch


@pytest.fixture(autouse=True)
def _nothing_left() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    # What is still alive then is held by C++, which nobody can tell from a model of the test: frozen objects are not
    # among those of `gc.get_objects`. They stay so: the next collection walks only what the next test made.
    gc.freeze()
