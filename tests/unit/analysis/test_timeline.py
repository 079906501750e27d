import pytest

from perfkit.analysis.intervals import union
from perfkit.analysis.timeline import PRIORITY, split


def test_overlapping_work_is_counted_once_and_the_rest_is_the_hosts() -> None:
    work = {
        "compute-bound": union([0], [4]),
        "communication": union([2], [7]),  # exposed from 4 to 7
        "copies": union([6], [8]),  # exposed from 7 to 8
    }
    parts = {part.category: part for part in split(union([0], [10]), work, steps=2)}
    assert parts["compute-bound"].seconds == 2.0
    assert parts["communication"].seconds == 1.5
    assert parts["copies"].seconds == 0.5
    assert parts["host"].share == pytest.approx(0.2)
    assert sum(part.share for part in parts.values()) == pytest.approx(1.0)
    assert set(parts) == {*PRIORITY, "host"}


def test_work_outside_of_the_steps_does_not_count() -> None:
    parts = {part.category: part.seconds for part in split(union([5], [10]), {"memory-bound": union([0], [6])}, 1)}
    assert parts["memory-bound"] == 1.0


def test_no_steps_no_split() -> None:
    assert split(union([], []), {}, 0) == ()
