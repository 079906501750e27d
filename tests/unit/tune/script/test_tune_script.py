"""The budget that a search of a script needs for its first trial."""

from types import SimpleNamespace

import pytest

from perfkit.tune.script.tune_script import _Search


@pytest.mark.parametrize(
    ("process_s", "spent_s", "needed_s"),
    [
        (10.0, 50.0, 50.0 + 60.0 + 80.0),  # three rounds of two processes, and four of the proof
        (0.1, 50.0, 50.6 / 0.85),  # its share is more than the proof needs
    ],
)
def test_a_first_trial_needs_its_rounds_and_those_of_the_proof(
    process_s: float, spent_s: float, needed_s: float
) -> None:
    search = object.__new__(_Search)
    for name, value in (
        ("request", SimpleNamespace(budget_s=90.0)),
        ("bench", SimpleNamespace(process_s=process_s)),
        ("clock", lambda: spent_s),
        ("begun_s", 0.0),
    ):
        setattr(search, name, value)
    assert search._estimate_least_budget_s() == pytest.approx(needed_s)
