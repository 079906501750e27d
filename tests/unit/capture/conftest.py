"""Tests of what is alive begin without what other tests left in cycles."""

import gc

import pytest


@pytest.fixture(autouse=True)
def _nothing_left() -> None:
    gc.collect()
