"""Updates the stored figures after a test run."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from perfkit.check.pytest.stored_figures import FiguresUpdate, read_stored, write_stored
from perfkit.core.record.environment import Environment

# By test, from `perfkit.check.pytest.messages.convert_to_plain`.
Found = Mapping[str, Mapping[str, Any]]


def find_removed_tests(path: Path, root: Path, files: Collection[str], tests: Collection[str]) -> list[str]:
    """Stored tests that no longer exist: the file is gone, or fully collected `files` lack them."""
    stored = read_stored(path)
    removed = []
    for test in () if stored is None else stored.variants:
        file = test.partition("::")[0]
        if not (root / file).exists() or (file in files and test not in tests):
            removed.append(test)
    return removed


def store_figures(path: Path, told: Found, passed_tests: Collection[str], removed: Collection[str]) -> None:
    """Store the measured figures, without removed tests."""
    remaining = {test: figures for test, figures in told.items() if figures["kept"]}
    before = read_stored(path)
    if not remaining and not removed:
        return
    environments = [figures["environment"] for figures in remaining.values()]
    if environments:
        environment = msgspec.convert(environments[-1], Environment)
    else:
        assert before is not None, "the removed figures were stored"
        environment = before.environment
    measured = {test: figures["kept"] for test, figures in remaining.items()}
    write_stored(path, FiguresUpdate(measured, environment, frozenset(passed_tests), frozenset(removed)))
