"""Which plans are of code that a run compiles."""

import pytest

from perfkit.core.spec import parse_variants
from perfkit.plan.rehearsal.technique_planning import is_compiled


@pytest.mark.parametrize(
    ("variant", "expected"), [("compile", True), ("amp+compile", True), ("amp", False), ("baseline", False)]
)
def test_a_step_of_compiled_code_is_planned_otherwise_than_it_runs(variant: str, expected: bool) -> None:
    assert is_compiled(parse_variants(variant)[0]) is expected
