"""Tests of what is alive and compiled begin without what other tests left in cycles and caches."""

import pytest


@pytest.fixture(autouse=True)
def _nothing_left(nothing_left: None) -> None:
    """For every test here."""
