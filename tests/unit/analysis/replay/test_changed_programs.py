"""Programs that were changed and traced again: a what-if on the first trace against the steps of the second."""

import pytest

from tests.fixtures.changed_programs import CHANGES, steps_of


@pytest.mark.parametrize("name", CHANGES)
def test_the_step_of_the_changed_program_is_simulated(name: str) -> None:
    step = steps_of(name)
    assert step.before > 1.15 * step.after
    assert step.simulated == pytest.approx(step.after, rel=0.05)
