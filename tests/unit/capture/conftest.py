"""Tests of what is alive and compiled begin without what other tests left in cycles and caches."""

import gc

import pytest
import torch


@pytest.fixture(autouse=True)
def _nothing_left() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
