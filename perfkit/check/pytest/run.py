"""The stored figures after a run of tests."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from perfkit.check.pytest.stored_figures import FiguresUpdate, read_stored, write_stored
from perfkit.record import Environment

# By test, as `perfkit.check.pytest.messages.convert_to_plain` makes it.
Found = Mapping[str, Mapping[str, Any]]


def find_removed_tests(path: Path, root: Path, files: Collection[str], tests: Collection[str]) -> list[str]:
    """The tests in the file of stored figures that are no longer: gone with their file, or from one of `files`, all of
    whose `tests` are known."""
    stored = read_stored(path)
    removed = []
    for test in () if stored is None else stored.variants:
        file = test.partition("::")[0]
        if not (root / file).exists() or (file in files and test not in tests):
            removed.append(test)
    return removed


def store_figures(path: Path, told: Found, passed: Collection[str], removed: Collection[str]) -> None:
    """Store what was found in tests, without those removed."""
    kept = {test: figures for test, figures in told.items() if figures["kept"]}
    before = read_stored(path)
    if not kept and not removed:
        return
    environments = [figures["environment"] for figures in kept.values()]
    if environments:
        environment = msgspec.convert(environments[-1], Environment)
    else:
        assert before is not None, "the removed figures were stored"
        environment = before.environment
    measured = {test: figures["kept"] for test, figures in kept.items()}
    write_stored(path, FiguresUpdate(measured, environment, frozenset(passed), frozenset(removed)))
